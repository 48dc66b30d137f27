// Package httpcall handles jobs by sending them to a URL: each attempt is a POST, signed as Standard Webhooks
// has it, and the answer says what becomes of the job.
//
// A 2xx ends the job, with the body as its result. 429 and 503 mean "try later" and cost no attempt, 410 gives
// the job up, anything else fails the attempt, which is tried again while attempts are left. A receiver that
// cannot be connected to costs no attempt either. The webhook-id is the same for all attempts of a job, so that
// a receiver can tell what it has done already.
//
// By default no connection is made to an address that is not public, whatever the name resolves to at that
// moment; no redirect is followed; proxies of the environment are not used; and no more of an answer is read
// than Config.MaxResponse.
package httpcall

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Defaults and limits.
const (
	DefaultTimeout     = 30 * time.Second // of an attempt whose context has no deadline
	DefaultMaxResponse = 256 << 10
	MaxMaxResponse     = 16 << 20

	dialTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
	idleTimeout      = 30 * time.Second
	maxIdle          = 16
	maxHeader        = 64 << 10
)

// Config says where jobs are sent, and how. URL is required, and either Secret or Unsigned.
type Config struct {
	// URL that receives the jobs: http or https, without a user part.
	URL string
	// Secret signs what is sent: whsec_ and a key of 24 to 64 bytes in base64.
	Secret string
	// Unsigned sends without a signature: the receiver cannot tell who asks.
	Unsigned bool
	// AllowPrivate lets the URL lead to addresses that are not public, such as 127.0.0.1 or 10.0.0.1. Whoever
	// may answer for the URL's name can then have this process send to anything that it can reach.
	AllowPrivate bool
	// UseProxy obeys HTTP_PROXY, HTTPS_PROXY and NO_PROXY. Since the proxy makes the connection, private
	// addresses cannot be refused then: AllowPrivate is required.
	UseProxy bool
	// MaxResponse is how many bytes the result may have. Defaults to 256 KiB, at most 16 MiB.
	MaxResponse int
	// RootCAs to trust. Defaults to those of the system.
	RootCAs *x509.CertPool
	// Resolver of names. Defaults to that of the system.
	Resolver *net.Resolver
	// UserAgent defaults to jetcrew.
	UserAgent string
}

// Caller sends jobs to a URL; its Run is the handler. It is safe for concurrent use.
type Caller struct {
	cfg       Config
	url       *url.URL
	sign      *standardwebhooks.Webhook // nil: unsigned
	transport *http.Transport
}

// New checks the configuration. Nothing is connected to yet. No error quotes more of the URL than its host.
func New(cfg Config) (*Caller, error) {
	u, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	c := &Caller{cfg: cfg, url: u}
	switch {
	case cfg.Unsigned && cfg.Secret != "":
		return nil, errors.New("give a secret, or ask for it to be unsigned, not both")
	case !cfg.Unsigned && cfg.Secret == "":
		return nil, errors.New("there is no secret to sign with")
	case cfg.UseProxy && !cfg.AllowPrivate:
		return nil, errors.New("a proxy connects to what it likes, so private addresses cannot be refused: they have to be allowed")
	}
	if !cfg.Unsigned {
		if c.sign, err = signer(cfg.Secret); err != nil {
			return nil, err
		}
	}
	if !cfg.AllowPrivate {
		if a, err := netip.ParseAddr(u.Hostname()); err == nil {
			if err := public(a); err != nil {
				return nil, err
			}
		}
	}
	if cfg.MaxResponse == 0 {
		c.cfg.MaxResponse = DefaultMaxResponse
	}
	if n := c.cfg.MaxResponse; n < 1 || n > MaxMaxResponse {
		return nil, fmt.Errorf("the longest result must be 1 to %d bytes, not %d", MaxMaxResponse, n)
	}
	if cfg.UserAgent == "" {
		c.cfg.UserAgent = "jetcrew"
	}
	c.transport = c.newTransport()
	return c, nil
}

// Host is where jobs are sent, without the rest of the URL, which may hold secrets.
func (c *Caller) Host() string { return c.url.Host }

// Encrypted reports whether jobs are sent by https.
func (c *Caller) Encrypted() bool { return c.url.Scheme == "https" }

// Close closes the connections that are idle.
func (c *Caller) Close() { c.transport.CloseIdleConnections() }

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil: // it would quote the text
		return nil, errors.New("the URL cannot be read")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	case u.User != nil:
		return nil, fmt.Errorf("the URL of %s has a user part: requests are signed instead", u.Host)
	case u.Fragment != "":
		return nil, fmt.Errorf("the URL of %s has a fragment", u.Host)
	}
	return u, nil
}

func (c *Caller) newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, Resolver: c.cfg.Resolver}
	if !c.cfg.AllowPrivate {
		dialer.ControlContext = onlyPublic
	}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.cfg.RootCAs},
		TLSHandshakeTimeout:    handshakeTimeout,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
	if c.cfg.UseProxy {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t
}

// onlyPublic is asked about each address right before it is connected to, after names were resolved: a name
// that was public a moment ago is no way in.
func onlyPublic(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrPrivateAddress, address)
	}
	return public(at.Addr())
}
