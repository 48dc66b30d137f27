// Package apiclient is jetcrew over HTTP: what package client does with a NATS connection, a Client here asks of "jetcrew
// serve". Jobs are put in, read, listed and steered, queues and schedules set, and the key/value store used, with the same
// types and the same errors to branch on: job.ErrNotFound, job.ErrNoQueue, job.ErrUnknown and their like.
//
// It promises that the token is sent to the API's address and nowhere else, that an answer is bounded in time and size,
// that what cannot have been done is asked again as the API says (Retry-After), and that what may have been done is not,
// unless doing it twice is doing it once. What is not jetcrew's answer, such as a proxy's page, is an error that says so.
//
// It leaves to others what needs events, such as watching; Wait asks again and again.
package apiclient

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Config says where the API is, and who calls. Only URL is required.
type Config struct {
	// URL of the API, http:// or https://, with the prefix under which a proxy may serve it.
	URL string
	// Token of the caller. Defaults to none, which only an API on the same machine may take.
	Token string
	// TLS is for https. Defaults to the system's authorities.
	TLS *tls.Config
	// Timeout bounds each request that is answered at once. Defaults to 15 s.
	Timeout time.Duration
	// LongTimeout bounds each request that goes over many things, or waits for workers. Defaults to 75 s, which is more
	// than the API takes.
	LongTimeout time.Duration
	// MaxAnswer is the longest answer that is read, in bytes. Defaults to 64 MiB.
	MaxAnswer int64
	// Program is the name and version that the API's log shows. Defaults to "jetcrew-apiclient".
	Program string
}

// Client asks an API. It is safe for concurrent use.
type Client struct {
	cfg    Config
	base   string // without a slash at its end
	http   *http.Client
	offset atomic.Pointer[time.Duration] // of the API's clock to this machine's; nil: not known yet
}

var _ job.Operator = (*Client)(nil)

// New makes a Client. It asks nothing yet.
func New(cfg Config) (*Client, error) {
	base, err := checkURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	if err := checkToken(cfg.Token); err != nil {
		return nil, err
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, 15*time.Second)
	cfg.LongTimeout = cmp.Or(cfg.LongTimeout, 75*time.Second)
	cfg.MaxAnswer = cmp.Or(cfg.MaxAnswer, 64<<20)
	cfg.Program = cmp.Or(cfg.Program, "jetcrew-apiclient")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = cfg.TLS
	transport.MaxResponseHeaderBytes = 64 << 10
	return &Client{cfg: cfg, base: base, http: &http.Client{
		Transport: transport,
		// Wherever it leads, the token was not meant for it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes the connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// checkURL is an API's address without the slash at its end.
func checkURL(given string) (string, error) {
	u, err := url.Parse(given)
	switch {
	case err != nil: // the error would show what is in it, a password perhaps
		return "", errors.New("URL: must be an address such as https://jobs.example.com or http://127.0.0.1:8080/prefix")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", errors.New("URL: must begin with http:// or https:// and a host, such as https://jobs.example.com")
	case u.User != nil:
		return "", errors.New("URL: must not hold a name or a password: the API takes a token")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("URL: must not have a ? or a #: what stands before the paths is all of it")
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// checkToken refuses what no header can carry.
func checkToken(token string) error {
	for _, r := range token {
		if r <= ' ' || r > '~' {
			return errors.New("token: must be printable ASCII without spaces")
		}
	}
	return nil
}

// location is the path of an operation, of segments that may hold anything.
func location(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		switch s {
		case ".", "..": // which a client or a proxy would resolve
			s = strings.ReplaceAll(s, ".", "%2E")
		default:
			s = url.PathEscape(s)
		}
		b.WriteString(s)
	}
	return b.String()
}

// fieldError is a *job.FieldError for what cannot be asked over HTTP.
func fieldError(field, format string, args ...any) error {
	return &job.FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
