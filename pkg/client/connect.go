package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats.go"
)

// How a connection is watched and brought back.
const (
	connectTimeout  = 5 * time.Second
	pingInterval    = 10 * time.Second
	maxPingsOut     = 2
	reconnectWait   = 500 * time.Millisecond
	reconnectJitter = 500 * time.Millisecond
)

// ErrConfig: the Config cannot be used.
var ErrConfig = errors.New("client: configuration")

// connect makes the connection that cfg describes.
func connect(ctx context.Context, cfg Config, ev *events) (*nats.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	urls, opts, err := cfg.target()
	if err != nil {
		return nil, err
	}
	timeout := cfg.ConnectTimeout
	if timeout <= 0 {
		timeout = connectTimeout
	}
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(min(timeout, time.Until(deadline)), time.Millisecond)
	}
	name := cfg.Name
	if name == "" {
		name = "jetcrew"
	}
	opts = append(opts,
		nats.Name(name),
		nats.Timeout(timeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPingsOut),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, 2*reconnectJitter),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { ev.disconnected(err) }),
		nats.ReconnectHandler(ev.reconnected),
		nats.ClosedHandler(ev.closed),
		nats.ErrorHandler(ev.failed),
	)
	if cfg.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(cfg.InboxPrefix))
	}
	opts = append(opts, cfg.Options...)
	nc, err := nats.Connect(strings.Join(urls, ","), opts...)
	if err != nil {
		return nil, explainConnect(urls, err)
	}
	return nc, nil
}

// target is where to connect, and as whom.
func (c *Config) target() ([]string, []nats.Option, error) {
	if c.Context != "" {
		if len(c.URLs) > 0 {
			return nil, nil, fmt.Errorf("%w: give URLs or a context, not both", ErrConfig)
		}
		nctx, err := natscontext.New(c.Context, true)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: NATS context %q: %w", ErrConfig, c.Context, err)
		}
		opts, err := nctx.NATSOptions()
		if err != nil {
			return nil, nil, fmt.Errorf("%w: NATS context %q: %w", ErrConfig, c.Context, err)
		}
		urls, err := checkURLs(strings.Split(nctx.ServerURL(), ","))
		return urls, opts, err
	}
	urls := c.URLs
	if len(urls) == 0 {
		urls = []string{nats.DefaultURL}
	}
	urls, err := checkURLs(urls)
	if err != nil {
		return nil, nil, err
	}
	opts, err := c.identity()
	return urls, opts, err
}

// identity is the options of whom to connect as.
func (c *Config) identity() ([]nats.Option, error) {
	var opts []nats.Option
	given := 0
	if c.Credentials != "" {
		given++
		opts = append(opts, nats.UserCredentials(c.Credentials))
	}
	if c.NKey != "" {
		given++
		opt, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return nil, fmt.Errorf("%w: nkey file %s: %w", ErrConfig, c.NKey, err)
		}
		opts = append(opts, opt)
	}
	if c.User != "" {
		given++
		opts = append(opts, nats.UserInfo(c.User, c.Password))
	}
	if c.Token != "" {
		given++
		opts = append(opts, nats.Token(c.Token))
	}
	if given > 1 {
		return nil, fmt.Errorf("%w: give one of credentials, nkey, user and token", ErrConfig)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return nil, fmt.Errorf("%w: a TLS certificate and its key go together", ErrConfig)
	}
	if c.TLSCA != "" {
		opts = append(opts, nats.RootCAs(c.TLSCA))
	}
	if c.TLSCert != "" {
		opts = append(opts, nats.ClientCert(c.TLSCert, c.TLSKey))
	}
	return opts, nil
}

// checkURLs refuses what the NATS client would refuse with an error that shows the URL and its password.
func checkURLs(urls []string) ([]string, error) {
	out := make([]string, 0, len(urls))
	for _, s := range urls {
		s = strings.TrimSpace(s)
		if !strings.Contains(s, "://") {
			s = "nats://" + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return nil, fmt.Errorf("%w: a server's URL is nats://, tls://, ws:// or wss:// with a host, which %q is not", ErrConfig, redact(s))
		}
		out = append(out, s)
	}
	return out, nil
}

// redact is a URL without its user, password or token.
func redact(s string) string {
	scheme, rest, _ := strings.Cut(s, "://")
	return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
}

// explainConnect says what did not work and where, without a secret.
func explainConnect(urls []string, err error) error {
	shown := make([]string, len(urls))
	for i, u := range urls {
		shown[i] = redact(u)
	}
	where := strings.Join(shown, ", ")
	err = scrub(err, urls)
	switch {
	case errors.Is(err, nats.ErrNoServers):
		return fmt.Errorf("no NATS server answers at %s: %w", where, err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired):
		return fmt.Errorf("the NATS server at %s refuses these credentials: %w", where, err)
	default:
		return fmt.Errorf("connect to NATS at %s: %w", where, err)
	}
}

// scrub replaces an error whose text holds a password or a token from a URL.
func scrub(err error, urls []string) error {
	text := err.Error()
	for _, s := range urls {
		u, parseErr := url.Parse(s)
		if parseErr != nil || u.User == nil {
			continue
		}
		password, _ := u.User.Password()
		secrets := []string{u.User.String(), password}
		if password == "" {
			secrets = append(secrets, u.User.Username()) // alone, it is a token
		}
		for _, secret := range secrets {
			if secret != "" {
				text = strings.ReplaceAll(text, secret, "(redacted)")
			}
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}
