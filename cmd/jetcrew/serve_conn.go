package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
)

// errClosed: the connection will not come back.
var errClosed = errors.New("the connection to NATS is closed for good")

// whileConnected ends the context when the connection is closed for good, such as after its user was removed. The
// function that it answers waits for the goroutine that watches.
func whileConnected(ctx context.Context, nc *nats.Conn) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	closed := nc.StatusChanged(nats.CLOSED)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-closed:
			cancel(errClosed)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-watched
		nc.RemoveStatusListener(closed)
	}
}

// lostConnection is the error of a context that ended since the connection did.
func lostConnection(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errClosed) {
		return errClosed
	}
	return nil
}

// newReadiness asks whether the connection stands and the stream has a leader who answers.
func newReadiness(c *client.Client, cfg *config.Config) (*httpapi.Readiness, error) {
	js, err := jetstream.New(c.Conn())
	if err != nil {
		return nil, fmt.Errorf("readiness: %w", err)
	}
	stream := strings.ToUpper(cfg.Namespace) + "_JOBS"
	return httpapi.NewReadiness(func(ctx context.Context) error {
		if !c.Conn().IsConnected() {
			return errors.New("not connected to NATS")
		}
		if _, err := js.Stream(ctx, stream); err != nil {
			return fmt.Errorf("stream %s: %w", stream, err)
		}
		return nil
	}), nil
}
