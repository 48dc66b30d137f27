package httpapi

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// ErrNoStore: there is no key/value store yet, so that nobody can have stored a token.
var ErrNoStore = errors.New("there is no key/value store")

// AccessConfig of an Access. Open and Clock are required.
type AccessConfig struct {
	// Open opens the adapter of the key/value store. It is asked for each thing that needs it, so it keeps what it has
	// opened. It fails with ErrNoStore where the store is not there, and is not to be made.
	Open func(context.Context) (kv.Adapter, error)
	// Clock is the store's.
	Clock job.Clock
	// Connected says at once that the store cannot be reached. Defaults to always.
	Connected func() bool
	// TokenRate and SpaceRate are how many requests one token may make, and how many may concern one space, in the whole
	// fleet. Default to no limit.
	TokenRate, SpaceRate config.Rate
	// Logger takes what goes wrong. Defaults to none.
	Logger zerolog.Logger

	flushEvery time.Duration // defaults to flushEvery
}

// Access is what the fleet's APIs remember of who may call: stored tokens, what was used of rates, and the records of
// what was refused. It is safe for concurrent use, and has to be closed.
//
// All of it stands in the bucket of the key/value store, since an API has the right to that already, in a segment of its
// own before any space's: no space's name and no key reaches it, over HTTP, by the command line or from a handler. In
// NATS its subjects are $KV.<bucket>.api.>, so that a user can be kept from them.
type Access struct {
	cfg    AccessConfig
	store  *kv.Store
	tokens storedTokens
	limits struct{ token, space limiter }
	record recorder

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// NewAccess asks the store nothing yet.
func NewAccess(cfg AccessConfig) *Access {
	if cfg.Connected == nil {
		cfg.Connected = func() bool { return true }
	}
	setDefault(&cfg.flushEvery, flushEvery)
	a := &Access{cfg: cfg, store: kv.New(reserved{cfg.Open}, kv.Options{})}
	a.limits.token.rate, a.limits.space.rate = cfg.TokenRate, cfg.SpaceRate
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// Close stores the records that are not stored yet, for a few seconds at most. Calling it again does nothing.
func (a *Access) Close() {
	a.cancel()
	a.wg.Wait()
}

func (a *Access) now() time.Time { return a.cfg.Clock.Now().UTC() }

// reservedPrefix is what keys of the API's own begin with. A space's keys begin with v/ or list/ and its name; and since no
// space's name is ever written as a lone =, they are not those of any space either to a NATS user who may have "*.<space>.>".
const reservedPrefix = "api/=/"

// reserved is an Adapter of what the API keeps for itself.
type reserved struct {
	open func(context.Context) (kv.Adapter, error)
}

func (r reserved) Get(ctx context.Context, key string) (string, bool, error) {
	a, err := r.open(ctx)
	if err != nil {
		return "", false, err
	}
	return a.Get(ctx, reservedPrefix+key)
}

func (r reserved) Set(ctx context.Context, key, value string, ttl time.Duration) error {
	a, err := r.open(ctx)
	if err != nil {
		return err
	}
	return a.Set(ctx, reservedPrefix+key, value, ttl)
}

func (r reserved) Delete(ctx context.Context, key string) error {
	a, err := r.open(ctx)
	if err != nil {
		return err
	}
	return a.Delete(ctx, reservedPrefix+key)
}

func (r reserved) DeleteIf(ctx context.Context, key, expected string) (bool, error) {
	a, err := r.open(ctx)
	if err != nil {
		return false, err
	}
	return a.DeleteIf(ctx, reservedPrefix+key, expected)
}

func (r reserved) Increment(ctx context.Context, key string, amount int64) (int64, error) {
	a, err := r.open(ctx)
	if err != nil {
		return 0, err
	}
	return a.Increment(ctx, reservedPrefix+key, amount)
}

func (r reserved) Expire(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	a, err := r.open(ctx)
	if err != nil {
		return false, err
	}
	return a.Expire(ctx, reservedPrefix+key, ttl)
}

func (r reserved) Swap(ctx context.Context, key string, expected *string, next string, ttl time.Duration) (bool, error) {
	a, err := r.open(ctx)
	if err != nil {
		return false, err
	}
	return a.Swap(ctx, reservedPrefix+key, expected, next, ttl)
}

func (r reserved) Keys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		a, err := r.open(ctx)
		if err != nil {
			yield("", err)
			return
		}
		for key, err := range a.Keys(ctx, reservedPrefix+prefix) {
			if !yield(strings.TrimPrefix(key, reservedPrefix), err) {
				return
			}
		}
	}
}

func (r reserved) Wipe(ctx context.Context, prefix string) (int, error) {
	a, err := r.open(ctx)
	if err != nil {
		return 0, err
	}
	return a.Wipe(ctx, reservedPrefix+prefix)
}
