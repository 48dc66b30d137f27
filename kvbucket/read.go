package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const apiPrefix = "$JS.API."

// errSilent: no answer came, or one that says that nobody can answer now.
var errSilent = errors.New("the store did not answer")

// nearest reads a key's last message from whichever replica answers, unless that one is known to be behind. It asks for
// as long as ctx allows.
func (b *Bucket) nearest(ctx context.Context, subject string) (*entry, error) {
	if !b.direct {
		return b.leaders(ctx, subject)
	}
	var era uint64
	e, err := insist(ctx, b.timeout, func(ctx context.Context) (*entry, error) {
		era = b.era()
		return b.directGet(ctx, subject)
	})
	if err != nil {
		return nil, err
	}
	if b.replicated && b.recent.past(subject, e.seq) {
		return b.leaders(ctx, subject)
	}
	b.learn(era, subject, e.seq)
	return e, nil
}

// leaders reads a key's last message, or that of a filter, from the bucket's leader. It asks for as long as ctx allows.
func (b *Bucket) leaders(ctx context.Context, subject string) (*entry, error) {
	var era uint64
	e, err := insist(ctx, b.timeout, func(ctx context.Context) (*entry, error) {
		era = b.era()
		return b.leaderGet(ctx, subject)
	})
	if err != nil {
		return nil, err
	}
	if e.seq == 0 && b.replicated {
		b.recent.vanished(subject)
	}
	b.learn(era, subject, e.seq)
	return e, nil
}

// learn notes a key's revision.
func (b *Bucket) learn(era uint64, subject string, seq uint64) {
	if seq != 0 {
		b.memory.learn(era, subject, seq, b.replicated)
	}
}

func (b *Bucket) directGet(ctx context.Context, subject string) (*entry, error) {
	m, err := b.request(ctx, apiPrefix+"DIRECT.GET."+b.stream+"."+subject, nil)
	if err != nil {
		return nil, err
	}
	switch status := header(m.Header, "Status"); status {
	case "":
		return directEntry(m)
	case "404":
		return &entry{}, nil
	case "503":
		return nil, errSilent
	default:
		return nil, fmt.Errorf("direct get: %s %s", status, header(m.Header, "Description"))
	}
}

func (b *Bucket) leaderGet(ctx context.Context, subject string) (*entry, error) {
	body, err := job.Encode(struct {
		LastFor string `json:"last_by_subj"`
	}{subject})
	if err != nil {
		return nil, err
	}
	m, err := b.request(ctx, apiPrefix+"STREAM.MSG.GET."+b.stream, body)
	if err != nil {
		return nil, err
	}
	var out struct {
		Message *struct {
			Seq    uint64    `json:"seq"`
			Header []byte    `json:"hdrs"`
			Data   []byte    `json:"data"`
			Time   time.Time `json:"time"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := job.Decode(m.Data, &out); err != nil {
		return nil, fmt.Errorf("reading from the leader: %w", err)
	}
	switch {
	case out.Error != nil && out.Error.ErrorCode == codeNoMessage:
		return &entry{}, nil
	case out.Error != nil && out.Error.Code == http.StatusServiceUnavailable:
		return nil, fmt.Errorf("%w: %w", errSilent, out.Error)
	case out.Error != nil:
		return nil, fmt.Errorf("reading from the leader: %w", out.Error)
	case out.Message == nil:
		return nil, errors.New("reading from the leader: an answer without a message")
	}
	var h nats.Header
	if len(out.Message.Header) > 0 {
		if h, err = nats.DecodeHeadersMsg(out.Message.Header); err != nil {
			return nil, fmt.Errorf("reading from the leader: %w", err)
		}
	}
	return readEntry(h, out.Message.Data, out.Message.Seq, out.Message.Time), nil
}

// request asks once. Its error wraps errSilent where asking again may help.
func (b *Bucket) request(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	m, err := b.nc.RequestWithContext(ctx, subject, body)
	switch {
	case err == nil:
		return m, nil
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrReconnectBufExceeded):
		return nil, fmt.Errorf("%w: %w", errSilent, err)
	default:
		return nil, err
	}
}

// insist asks again and again where nobody answers, for as long as ctx allows. The first try has the time that is given.
func insist[T any](ctx context.Context, timeout time.Duration, ask func(context.Context) (T, error)) (T, error) {
	for try := 0; ; try++ {
		once, cancel := context.WithTimeout(ctx, longer(timeout, try))
		answer, err := ask(once)
		cancel()
		if !errors.Is(err, errSilent) {
			return answer, err
		}
		if try == 0 { // not before, since it costs as much as a timer
			var cancel context.CancelFunc
			ctx, cancel = bounded(ctx)
			defer cancel()
		}
		if perr := pause(ctx, try); perr != nil {
			return answer, fmt.Errorf("%w (last: %w)", perr, err)
		}
	}
}

// longer is the time that a try has (from 0), if the first has that of the argument.
func longer(timeout time.Duration, try int) time.Duration {
	return max(timeout, min(timeout<<min(try, 4), maxTimeout))
}

// pause waits a little before the next try after the n-th (from 0), ever longer, up to a quarter of a second.
func pause(ctx context.Context, n int) error {
	t := time.NewTimer(min(2*time.Millisecond<<min(n, 9), 250*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
