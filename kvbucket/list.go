package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

const (
	// pageKeys is how many keys are asked for at a time.
	pageKeys = 1000
	// idleConsumer is after which time the server removes a consumer that was left behind.
	idleConsumer = 30 * time.Second
	// askAgain is after how many empty answers of a consumer, where there should be more, another one is asked.
	askAgain = 8
)

// Keys implements kv.Adapter. It holds a page of keys at a time, and a consumer on the server while it runs.
func (b *Bucket) Keys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		more := true
		err := b.walk(ctx, prefix, func(key string, _ *entry) bool {
			more = yield(key, nil)
			return more
		})
		if err != nil && more {
			yield("", fmt.Errorf("kvbucket: keys %.200q: %w", prefix, err))
		}
	}
}

// walk visits the keys with a prefix that have a value, by the leader's word on which is the last of them: a consumer
// may run on a replica that is behind. What stands in the bucket under a name that is no key of ours is passed over.
func (b *Bucket) walk(ctx context.Context, prefix string, visit func(key string, e *entry) bool) (err error) {
	if err := kv.CheckPrefix(prefix); err != nil {
		return err
	}
	if b.ctx.Err() != nil {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l := &lister{b: b, filter: b.prefix + filter(prefix), next: 1}
	defer l.close(ctx)
	fence, err := l.newest(ctx)
	if err != nil || fence == 0 {
		return err
	}
	since := time.Now() // it last had something
	for idle := 0; l.next <= fence; {
		page, err := l.page(ctx)
		if err != nil {
			return err
		}
		for _, m := range page {
			if m.e.seq > fence { // it was written meanwhile
				return nil
			}
			key, ok := decode(strings.TrimPrefix(m.subject, b.prefix))
			if ok && strings.HasPrefix(key, prefix) && m.e.there(b.clock.Now()) && !visit(key, m.e) {
				return nil
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(page) > 0 {
			idle, since = 0, time.Now()
			continue
		}
		last, err := l.newest(ctx) // what was the last one may be gone
		if err != nil {
			return err
		}
		if fence = min(fence, last); l.next > fence {
			return nil
		}
		if time.Since(since) > defaultDeadline {
			return fmt.Errorf("%w: what is there is not listed", errSilent)
		}
		if err := pause(ctx, idle); err != nil {
			return err
		}
		if idle++; idle%askAgain == 0 {
			l.close(ctx) // the next one may know more
		}
	}
	return nil
}

// lister reads the messages of a filter in their order, without their values.
type lister struct {
	b        *Bucket
	filter   string
	next     uint64 // the sequence from which on it has not read
	consumer string // on the server
	sub      *nats.Subscription
	inbox    string
	received uint64 // messages of this consumer
}

type listed struct {
	subject string
	e       *entry
}

// newest is the sequence of the last message that the filter matches, as the leader has it; 0 where there is none.
func (l *lister) newest(ctx context.Context) (uint64, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	e, err := insist(ctx, l.b.timeout, func(ctx context.Context) (*entry, error) { return l.b.leaderGet(ctx, l.filter) })
	if err != nil {
		return 0, err
	}
	return e.seq, nil
}

// page reads what comes next, or nothing where there is nothing yet. A consumer that has gone, or that lost something on
// the way, is replaced by one that begins where the last one ended.
func (l *lister) page(ctx context.Context) ([]listed, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return insist(ctx, l.b.timeout, func(ctx context.Context) ([]listed, error) {
		if err := l.open(ctx); err != nil {
			return nil, err
		}
		page, err := l.pull(ctx)
		if err != nil {
			l.close(ctx)
		}
		if len(page) > 0 {
			return page, nil // the error shows again, if it is one
		}
		return nil, err
	})
}

func (l *lister) open(ctx context.Context) error {
	if l.consumer != "" {
		return nil
	}
	c, err := l.b.js.CreateConsumer(ctx, l.b.stream, jetstream.ConsumerConfig{
		FilterSubject: l.filter, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: l.next,
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true, InactiveThreshold: idleConsumer, Replicas: 1, MemoryStorage: true,
	})
	if err != nil {
		return silent(err)
	}
	l.inbox = l.b.nc.NewInbox()
	if l.sub, err = l.b.nc.SubscribeSync(l.inbox); err != nil {
		return err
	}
	l.consumer, l.received = c.CachedInfo().Name, 0
	return nil
}

// pull asks once. Whatever it answers besides an error can be used.
func (l *lister) pull(ctx context.Context) ([]listed, error) {
	body, err := job.Encode(struct {
		Batch  int  `json:"batch"`
		NoWait bool `json:"no_wait"`
	}{pageKeys, true})
	if err != nil {
		return nil, err
	}
	if err := l.b.nc.PublishRequest(apiPrefix+"CONSUMER.MSG.NEXT."+l.b.stream+"."+l.consumer, l.inbox, body); err != nil {
		return nil, err
	}
	var page []listed
	for len(page) < pageKeys {
		m, err := l.sub.NextMsgWithContext(ctx)
		if err != nil {
			return page, silent(err)
		}
		if status := header(m.Header, "Status"); status != "" {
			if status == "404" || status == "408" {
				return page, nil
			}
			return page, fmt.Errorf("%w: %s %s", errSilent, status, header(m.Header, "Description"))
		}
		meta, err := m.Metadata()
		if err != nil {
			return page, err
		}
		if l.received++; meta.Sequence.Consumer != l.received {
			return page, fmt.Errorf("%w: a message was lost on its way", errSilent)
		}
		l.next = meta.Sequence.Stream + 1
		page = append(page, listed{m.Subject, readEntry(m.Header, nil, meta.Sequence.Stream, meta.Timestamp)})
	}
	return page, nil
}

// silent marks the errors after which asking again may help.
func silent(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout),
		errors.Is(err, jetstream.ErrConsumerNotFound), errors.As(err, &api) && api.Code == http.StatusServiceUnavailable:
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return err
}

// close removes the consumer, also when ctx has ended. Should that fail, the server removes it by itself.
func (l *lister) close(ctx context.Context) {
	if l.consumer == "" {
		return
	}
	_ = l.sub.Unsubscribe() // fails only when the connection is closed already
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.b.timeout)
	defer cancel()
	if err := l.b.js.DeleteConsumer(ctx, l.b.stream, l.consumer); err != nil {
		l.b.log.Debug().Err(err).Str("consumer", l.consumer).Msg("left to the server to remove")
	}
	l.consumer = ""
}
