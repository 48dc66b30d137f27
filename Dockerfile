# The jetcrew binary and nothing else: no shell, no package manager, no root.
#
#   docker build --build-arg VERSION=1.2.3 -t jetcrew .
#   docker run --rm jetcrew version

FROM golang:1.26-alpine AS build
WORKDIR /src
# The modules first: they change less often than the code, and need not be fetched again with every change of it.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /jetcrew ./cmd/jetcrew

# Certificate authorities, time zones, and a user that is not root (65532).
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /jetcrew /jetcrew
USER 65532:65532
WORKDIR /home/nonroot

# For serve and schedule, which listen where it asks. A worker listens nowhere: run it with --no-healthcheck.
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s --retries=3 CMD ["/jetcrew", "health"]

ENTRYPOINT ["/jetcrew"]
CMD ["help"]
