package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/streams"
)

// KV is the key/value store on the client's connection: the same one in each call, so that a process's changes of a key
// take turns. It is the one of the jobs' handlers, in the namespace, and on the clock, of the job queue.
//
// Its bucket is opened, and made where it is missing, by the first call that needs it; OpenKV does so at once. A client
// that may not have it works well for jobs: only what it asks of the store fails, with a *PermissionError.
func (c *Client) KV() *kv.Store { return c.values }

// OpenKV opens the bucket of the key/value store, or answers the open one: for whoever wants to know at the start that it
// can be used, or what it is like. It belongs to the client. Errors to branch on: kvbucket.ErrSettings, *PermissionError.
func (c *Client) OpenKV(ctx context.Context) (*kvbucket.Bucket, error) {
	return during(ctx, c.bucket, c.bucket.deniesAll, func(_ context.Context, b *kvbucket.Bucket) (*kvbucket.Bucket, error) { return b, nil })
}

// KVConflicts counts the writes of the key/value store that lost a race, so far. See kvbucket.Bucket.
func (c *Client) KVConflicts() uint64 {
	if b := c.bucket.shown.Load(); b != nil {
		return b.Conflicts()
	}
	return 0
}

// lazyBucket is a kv.Adapter that opens its bucket when it is first asked for something. What the server denies ends a
// call at once.
type lazyBucket struct {
	client *Client
	cfg    kvbucket.Config
	ctx    context.Context // ends at close
	cancel context.CancelFunc
	turn   chan struct{} // holds one: whoever has it may open or close the bucket
	opened *kvbucket.Bucket
	shown  atomic.Pointer[kvbucket.Bucket] // the same, for who has no turn
}

var (
	_ kv.Adapter = (*lazyBucket)(nil)
	_ kv.Watcher = (*lazyBucket)(nil)
)

func newLazyBucket(c *Client, cfg *Config) *lazyBucket {
	l := &lazyBucket{
		client: c,
		cfg: kvbucket.Config{
			Namespace: c.names.namespace,
			Replicas:  cfg.Streams.Replicas,
			Manage:    manages(cfg.Streams.Manage),
			Clock:     c.store,
			Logger:    cfg.Logger,
		},
		turn: make(chan struct{}, 1),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// open is the bucket. Where it cannot be opened, the next call tries again.
func (l *lazyBucket) open(ctx context.Context) (*kvbucket.Bucket, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case l.ctx.Err() != nil:
		return nil, kvbucket.ErrClosed
	case l.opened != nil:
		return l.opened, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	b, err := kvbucket.Open(ctx, l.client.nc, l.cfg)
	switch {
	case err != nil && l.ctx.Err() != nil:
		return nil, kvbucket.ErrClosed
	case err != nil:
		return nil, fmt.Errorf("open the key/value store: %w", err)
	}
	l.opened = b
	l.shown.Store(b)
	return b, nil
}

func (l *lazyBucket) close() {
	l.cancel()
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if l.opened != nil {
		l.opened.Close()
	}
}

// deniesKey tells which denials concern what is asked of a key.
func (l *lazyBucket) deniesKey(key string) func(*PermissionError) bool {
	subject := kvbucket.Subject(l.cfg.Namespace, key)
	return func(p *PermissionError) bool {
		return p.Subject == subject || strings.HasSuffix(p.Subject, "."+subject) || l.deniesAll(p)
	}
}

// deniesKeys tells which denials concern what is asked of all keys with a prefix.
func (l *lazyBucket) deniesKeys(prefix string) func(*PermissionError) bool {
	subjects := kvbucket.Subjects(l.cfg.Namespace, prefix)
	return func(p *PermissionError) bool {
		return strings.HasSuffix(p.Subject, "."+subjects) || l.deniesAll(p)
	}
}

// deniesWrites is deniesKeys for what also writes them.
func (l *lazyBucket) deniesWrites(prefix string) func(*PermissionError) bool {
	reads, begins := l.deniesKeys(prefix), strings.TrimSuffix(kvbucket.Subjects(l.cfg.Namespace, prefix), ">")
	return func(p *PermissionError) bool { return strings.HasPrefix(p.Subject, begins) || reads(p) }
}

// deniesAll reports whether a denial concerns whatever is asked.
func (l *lazyBucket) deniesAll(p *PermissionError) bool {
	if l.client.names.answers(p) || p.Subject == "$JS.API.INFO" {
		return true
	}
	return strings.HasPrefix(p.Subject, "$JS.API.") && !strings.Contains(p.Subject, ".$KV.") &&
		slices.Contains(strings.Split(p.Subject, "."), kvbucket.Stream(l.cfg.Namespace))
}

// during does something with the open bucket, until what it needs is denied.
func during[T any](ctx context.Context, l *lazyBucket, denies func(*PermissionError) bool, do func(context.Context, *kvbucket.Bucket) (T, error)) (T, error) {
	ctx, done := l.client.events.guard(ctx, denies)
	defer done()
	b, err := l.open(ctx)
	if err != nil {
		return *new(T), l.explain(ctx, err)
	}
	answer, err := do(ctx, b)
	return answer, l.explain(ctx, err)
}

// explain is events.explain for errors of the store.
func (l *lazyBucket) explain(ctx context.Context, err error) error {
	var p *PermissionError
	if !errors.Is(err, kv.ErrUnknown) || !errors.As(context.Cause(ctx), &p) {
		return l.client.events.explain(ctx, err)
	}
	if strings.HasPrefix(p.Subject, "$KV.") {
		return p // it was the write itself: nothing is stored
	}
	return fmt.Errorf("%w: %w", kv.ErrUnknown, p)
}

// found is the answer of an operation that may find nothing.
type found struct {
	value string
	ok    bool
}

// Get implements kv.Adapter.
func (l *lazyBucket) Get(ctx context.Context, key string) (string, bool, error) {
	f, err := during(ctx, l, l.deniesKey(key), func(ctx context.Context, b *kvbucket.Bucket) (f found, err error) {
		f.value, f.ok, err = b.Get(ctx, key)
		return f, err
	})
	return f.value, f.ok, err
}

// Set implements kv.Adapter.
func (l *lazyBucket) Set(ctx context.Context, key, value string, ttl time.Duration) error {
	_, err := during(ctx, l, l.deniesKey(key), func(ctx context.Context, b *kvbucket.Bucket) (struct{}, error) {
		return struct{}{}, b.Set(ctx, key, value, ttl)
	})
	return err
}

// Delete implements kv.Adapter.
func (l *lazyBucket) Delete(ctx context.Context, key string) error {
	_, err := during(ctx, l, l.deniesKey(key), func(ctx context.Context, b *kvbucket.Bucket) (struct{}, error) {
		return struct{}{}, b.Delete(ctx, key)
	})
	return err
}

// DeleteIf implements kv.Adapter.
func (l *lazyBucket) DeleteIf(ctx context.Context, key, expected string) (bool, error) {
	return during(ctx, l, l.deniesKey(key), func(ctx context.Context, b *kvbucket.Bucket) (bool, error) {
		return b.DeleteIf(ctx, key, expected)
	})
}

// Increment implements kv.Adapter.
func (l *lazyBucket) Increment(ctx context.Context, key string, amount int64) (int64, error) {
	return during(ctx, l, l.deniesKey(key), func(ctx context.Context, b *kvbucket.Bucket) (int64, error) {
		return b.Increment(ctx, key, amount)
	})
}

// Expire implements kv.Adapter.
func (l *lazyBucket) Expire(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	return during(ctx, l, l.deniesKey(key), func(ctx context.Context, b *kvbucket.Bucket) (bool, error) {
		return b.Expire(ctx, key, ttl)
	})
}

// Swap implements kv.Adapter.
func (l *lazyBucket) Swap(ctx context.Context, key string, expected *string, next string, ttl time.Duration) (bool, error) {
	return during(ctx, l, l.deniesKey(key), func(ctx context.Context, b *kvbucket.Bucket) (bool, error) {
		return b.Swap(ctx, key, expected, next, ttl)
	})
}

// Keys implements kv.Adapter.
func (l *lazyBucket) Keys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return sequence(ctx, l, l.deniesKeys(prefix), func(ctx context.Context, b *kvbucket.Bucket) iter.Seq2[string, error] { return b.Keys(ctx, prefix) })
}

// Watch implements kv.Watcher.
func (l *lazyBucket) Watch(ctx context.Context, prefix string, opts kv.WatchOptions) iter.Seq2[kv.Event, error] {
	return sequence(ctx, l, l.deniesKeys(prefix), func(ctx context.Context, b *kvbucket.Bucket) iter.Seq2[kv.Event, error] {
		return b.Watch(ctx, prefix, opts)
	})
}

// sequence yields what do makes of the open bucket.
func sequence[T any](
	ctx context.Context, l *lazyBucket, denies func(*PermissionError) bool,
	do func(context.Context, *kvbucket.Bucket) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, done := l.client.events.guard(ctx, denies)
		defer done()
		b, err := l.open(ctx)
		if err != nil {
			yield(*new(T), l.explain(ctx, err))
			return
		}
		for value, err := range do(ctx, b) {
			if !yield(value, l.explain(ctx, err)) {
				return
			}
		}
	}
}

// Wipe implements kv.Adapter.
func (l *lazyBucket) Wipe(ctx context.Context, prefix string) (int, error) {
	return during(ctx, l, l.deniesWrites(prefix), func(ctx context.Context, b *kvbucket.Bucket) (int, error) { return b.Wipe(ctx, prefix) })
}

// manages says of the bucket what a setting says of the streams.
func manages(m streams.Manage) kvbucket.Manage {
	if m == streams.ManageVerify {
		return kvbucket.ManageVerify
	}
	return kvbucket.ManageCreate
}
