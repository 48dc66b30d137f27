# Every target works on a fresh clone; `make help` lists them.

GO       ?= go
TOOL     := $(GO) tool -modfile=.ci/tools.mod
FUZZTIME ?= 10s
RECORDS  ?= 100000
SOAK     ?= 10m
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

.DEFAULT_GOAL := help
.PHONY: help build test test-minors race short fuzz vet lint fmt fmt-check vuln bench chaos chaos-broken soak bench-operating bench-kv bench-schedules bench-http demo ci clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## the binary, as bin/jetcrew
	$(GO) build -ldflags '-X main.version=$(VERSION)' -o bin/jetcrew ./cmd/jetcrew

test: ## all tests; most wait for leases and the like, so more packages than processors are tested at a time
	$(GO) test -p 4 ./...

test-minors: ## the server's behaviours and the contracts on each server minor that is supported
	GO=$(GO) integration/minors/run

chaos: ## every fault under load, with a line for each: acknowledged, lost, doubled, re-run, recovery
	GO=$(GO) integration/chaos/run

chaos-broken: ## each rule broken on purpose, with a line for each: caught or not, and by what
	GO=$(GO) integration/chaos/broken

soak: ## all kinds of load and faults at once for SOAK (10m), and nothing grows
	SOAK=$(SOAK) $(GO) test -count=1 -timeout 0 -v -run 'TestSoak$$' ./integration/chaos

race: ## all tests under the race detector
	$(GO) test -race ./...

short: ## the short tests under the race detector
	$(GO) test -race -short ./...

fuzz: ## every fuzz target for FUZZTIME (10s)
	GO=$(GO) .ci/fuzz $(FUZZTIME)

vet: ## go vet
	$(GO) vet ./...

lint: vet fmt-check ## vet, gofumpt and staticcheck
	$(TOOL) staticcheck ./...

fmt: ## format everything
	$(TOOL) gofumpt -w .

fmt-check: ## say what is not formatted
	@out=$$($(TOOL) gofumpt -l .); if [ -n "$$out" ]; then echo "not formatted (make fmt):"; echo "$$out"; exit 1; fi

vuln: ## known vulnerabilities (needs the network)
	$(TOOL) govulncheck ./...

bench: ## measure beside raw JetStream, on fresh servers, and print ratios
	JETCREW_BENCH=1 $(GO) test -count=1 -timeout 20m -v -run 'TestBench$$' ./pkg/bench

bench-operating: ## measure pages, counts and the projection on RECORDS (100000) records
	JETCREW_BENCH_RECORDS=$(RECORDS) $(GO) test -count=1 -timeout 30m -v -run TestOperatingOnManyRecords ./integration/operating

bench-kv: ## measure keys beside the stock client's on the same server, and print ratios
	JETCREW_BENCH=1 $(GO) test -count=1 -timeout 20m -v -run 'TestBench' ./kvbucket

bench-schedules: ## measure many schedules: due at one instant, lateness over a minute, memory
	JETCREW_BENCH_LATENESS=1 $(GO) test -count=1 -timeout 20m -run xxx -bench 'DueAtOne|Board|Lateness' -benchtime 1x ./scheduler

bench-http: ## measure enqueueing, calls and streams of events over HTTP beside the client's own, and print ratios
	JETCREW_BENCH=1 $(GO) test -count=1 -timeout 20m -v -run 'TestBenchHTTP$$' ./pkg/httpapi

demo: ## the demo, on this directory
	$(GO) run ./cmd/jetcrew demo

ci: ## what the gate runs
	.ci/run

clean: ## remove what was built
	rm -rf bin dist
