package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// PermissionError: the server does not allow the connection's user what a check needs.
type PermissionError struct {
	Operation string // Publish or Subscription, as the server says it
	Subject   string
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("the server does not permit: %s to %q", e.Operation, e.Subject)
}

func (e *PermissionError) Unwrap() error { return nats.ErrPermissionViolation }

var denial = regexp.MustCompile(`(?i)permissions violation for (\w+) (?:to|with reply of) "([^"]*)"`)

// denials hears what the server denies. It says so beside the request, which is never answered: a check that waits for
// the answer ends at once.
type denials struct {
	nc     *nats.Conn
	before nats.ErrHandler

	mu     sync.Mutex
	seen   []*PermissionError
	needs  []string // of the check under way
	cancel context.CancelCauseFunc
}

// hearDenials listens until stop is called; what else goes wrong on the connection still goes where it went.
func hearDenials(nc *nats.Conn) *denials {
	d := &denials{nc: nc, before: nc.ErrorHandler()}
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		switch {
		case errors.Is(err, nats.ErrPermissionViolation):
			d.hear(err)
		case d.before != nil:
			d.before(nc, sub, err)
		}
	})
	return d
}

func (d *denials) stop() { d.nc.SetErrorHandler(d.before) }

func (d *denials) hear(err error) {
	m := denial.FindStringSubmatch(err.Error())
	if m == nil {
		return
	}
	p := &PermissionError{Operation: m[1], Subject: m[2]}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, p)
	if d.cancel != nil && needed(d.needs, p) {
		d.cancel(p)
	}
}

// guard makes a context for a check that ends, with the denial as its cause, once something that the check needs is
// denied, or was denied before.
func (d *denials) guard(ctx context.Context, needs []string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.needs, d.cancel = needs, cancel
	for _, p := range d.seen {
		if needed(needs, p) {
			cancel(p)
		}
	}
	return ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.cancel = nil
		cancel(nil)
	}
}

// needed reports whether a denial concerns one of the subjects, or one that begins with it.
func needed(needs []string, p *PermissionError) bool {
	return slices.ContainsFunc(needs, func(s string) bool {
		rest, ok := strings.CutPrefix(p.Subject, s)
		return ok && (rest == "" || rest[0] == '.')
	})
}
