package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// newAccess is what the fleet's APIs remember of who may call, on a client's connection.
func newAccess(c *client.Client, cfg *config.Config, log zerolog.Logger) *httpapi.Access {
	return httpapi.NewAccess(httpapi.AccessConfig{
		Open:      func(ctx context.Context) (kv.Adapter, error) { return openAccess(ctx, c, cfg) },
		Clock:     c,
		Connected: c.Conn().IsConnected,
		TokenRate: cfg.APIRateToken, SpaceRate: cfg.APIRateSpace,
		Logger: log,
	})
}

// openAccess opens the bucket of the key/value store. One that is missing, and is not to be made, has no tokens in it.
func openAccess(ctx context.Context, c *client.Client, cfg *config.Config) (kv.Adapter, error) {
	b, err := c.OpenKV(ctx)
	if err == nil {
		return b, nil
	}
	if !errors.Is(err, kvbucket.ErrSettings) {
		return nil, err
	}
	js, jerr := jetstream.New(c.Conn())
	if jerr != nil {
		return nil, err
	}
	if _, jerr = js.Stream(ctx, kvbucket.Stream(cfg.Namespace)); errors.Is(jerr, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w: %w", httpapi.ErrNoStore, err)
	}
	return nil, err
}

// listenAPI listens where the API was told to. Without tokens that is a loopback address only, and stored ones count.
func listenAPI(ctx context.Context, listen string, tokens *httpapi.Tokens, access *httpapi.Access, log zerolog.Logger) (net.Listener, error) {
	closed := tokens != nil
	var unread error
	if !closed {
		closed, unread = access.Closed(ctx)
	}
	l, err := httpapi.Listen(listen, closed)
	switch {
	case errors.Is(err, httpapi.ErrOpen) && unread != nil:
		return nil, fmt.Errorf("--listen: %w, and it cannot be read whether any are stored: %w", err, unread)
	case errors.Is(err, httpapi.ErrOpen):
		return nil, usageError{fmt.Errorf("--listen: %w: make one with \"jetcrew token create\", or set JETCREW_API_TOKENS_FILE or JETCREW_API_TOKENS", err)}
	case err != nil:
		return nil, err
	case unread != nil:
		log.Warn().Err(unread).Msg("it cannot be read whether tokens are stored: nobody is served until it can, unless tokens are configured")
	case !closed:
		log.Warn().Msg("no tokens are configured, and none was ever stored: everyone on this machine may use the API, and nobody else can")
	}
	return l, nil
}
