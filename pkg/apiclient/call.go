package apiclient

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// call is one operation of the API.
type call struct {
	method, path string // the path percent-encoded
	query        url.Values
	body         any // written as jetcrew writes its documents; nil: none
	trace        job.Trace
	long         bool
	// again: doing it twice is doing it once, so that it may be asked again when nobody knows whether it was done.
	again bool
	// missing is what it means that there is no such thing.
	missing error
	// unknown is what it means that nobody knows whether it was done; job.ErrUnknown without.
	unknown error
}

// reads reports whether the call changes nothing.
func (cl *call) reads() bool { return cl.method == http.MethodGet }

// The most often that one thing is asked, and the waits in between where the API does not say how long.
const (
	maxTries  = 4
	firstWait = 200 * time.Millisecond
	// longestWait is the longest that is waited because the API says so. What is told to wait for longer is told so.
	longestWait = time.Minute
)

// do asks for an operation, again where that is safe, and reads the answer into out, unless that is nil. It answers the
// status.
func (c *Client) do(ctx context.Context, cl *call, out any) (int, error) {
	id := newRequestID() // of all tries: in the API's log they stand together
	wait := firstWait
	for try := 1; ; try++ {
		a, err := c.once(ctx, cl, id)
		if err == nil {
			return a.status, a.decode(cl, out)
		}
		pause, again := cl.askAgain(err)
		pause = max(pause, wait)
		if !again || try == maxTries || pause > longestWait || ctx.Err() != nil {
			return 0, err
		}
		if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= pause {
			return 0, err // it would be cut short, and with a worse reason
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, err
		}
		wait *= 2
	}
}

// askAgain reports whether a call that failed may be made again, and after how long.
func (cl *call) askAgain(err error) (time.Duration, bool) {
	var p *Error
	if errors.As(err, &p) {
		switch p.Code {
		case codeRateLimited, codeQueueFull, codeUnavailable, codeBusy, codeOverCapacity: // nothing was done
			return p.RetryAfter, true
		case codeOutcomeUnknown:
			return p.RetryAfter, cl.again
		}
		return 0, false
	}
	var late *lostError
	if errors.As(err, &late) {
		return 0, !late.final && (!late.sent || cl.again || cl.reads())
	}
	return 0, false
}

// answer is what the API answered, when that is no problem.
type answer struct {
	where  string
	status int
	body   []byte
}

// once asks once.
func (c *Client) once(ctx context.Context, cl *call, id string) (*answer, error) {
	limit := c.cfg.Timeout
	if cl.long {
		limit = c.cfg.LongTimeout
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent = true }})
	req, err := c.request(ctx, cl, id)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.lost(whole, cl, sent, err)
	}
	defer resp.Body.Close()
	c.learnClock(resp.Header)
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "application/json" && kind != problemType {
		return nil, c.foreign(cl, resp, kind)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.cfg.MaxAnswer+1))
	if err != nil {
		return nil, c.lost(whole, cl, true, err)
	}
	if int64(len(body)) > c.cfg.MaxAnswer {
		return nil, cl.doubt(fmt.Errorf("%w: %s answered more than %d bytes: ask for less at a time", ErrAnswer, c.base, c.cfg.MaxAnswer))
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, c.problem(cl, resp, body, id)
	}
	return &answer{c.base, resp.StatusCode, body}, nil
}

// request is a call as a request.
func (c *Client) request(ctx context.Context, cl *call, id string) (*http.Request, error) {
	target := c.base + cl.path
	if len(cl.query) > 0 {
		target += "?" + cl.query.Encode()
	}
	var body io.Reader
	if cl.body != nil {
		b, err := job.Encode(cl.body)
		if err != nil {
			return nil, fmt.Errorf("write the request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, cl.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	h := req.Header
	h.Set("Accept", "application/json, "+problemType)
	h.Set("User-Agent", c.cfg.Program)
	h.Set("X-Request-Id", id)
	if body != nil {
		h.Set("Content-Type", "application/json")
	}
	if c.cfg.Token != "" {
		h.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	if cl.trace.Parent != "" {
		h.Set("Traceparent", cl.trace.Parent)
		if cl.trace.State != "" {
			h.Set("Tracestate", cl.trace.State)
		}
	}
	return req, nil
}

// decode reads the answer. One that cannot be read leaves it open what was done.
func (a *answer) decode(cl *call, out any) error {
	if out == nil {
		out = new(jsontext.Value) // it has to be one
	}
	if err := job.Decode(a.body, out); err != nil {
		return cl.doubt(fmt.Errorf("%w: %s answered %d with what is not jetcrew's JSON, or is cut off", ErrAnswer, a.where, a.status))
	}
	return nil
}

// lost is the error of a call that got no answer. whole is the caller's context.
func (c *Client) lost(whole context.Context, cl *call, sent bool, err error) error {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	l := &lostError{sent: sent, final: errors.As(err, &certificate) || errors.As(err, &record)}
	if end := whole.Err(); end != nil {
		err = end
	} else if u := (*url.Error)(nil); errors.As(err, &u) {
		if err = u.Err; u.Timeout() {
			err = errors.New("it did not answer in time")
		}
	}
	l.err = fmt.Errorf("%w: %s: %w", ErrUnreachable, c.base, err)
	if sent {
		l.err = cl.doubt(l.err)
	}
	return l
}

// lostError is the error of a call that got no answer.
type lostError struct {
	err   error
	sent  bool // it may have reached the API
	final bool // asking again would come to the same
}

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// doubt says of a call that changes something that nobody knows whether it did.
func (cl *call) doubt(err error) error {
	if cl.reads() {
		return err
	}
	unknown := cl.unknown
	if unknown == nil {
		unknown = job.ErrUnknown
	}
	return fmt.Errorf("%w: %w", unknown, err)
}

// retryAfter is how long the API asks to wait.
func retryAfter(h http.Header) time.Duration {
	given := h.Get("Retry-After")
	if n, err := strconv.Atoi(given); err == nil && n >= 0 {
		return min(time.Duration(n), 1<<30) * time.Second
	}
	if at, err := http.ParseTime(given); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

func newRequestID() string { return strings.ToLower(rand.Text()[:16]) }
