package kv

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrFull: the store holds all that it may.
var ErrFull = errors.New("store is full")

// MemoryOptions bound a store in memory. What is left 0 has its default.
type MemoryOptions struct {
	// MaxKeys is how many keys it may hold. Defaults to 100,000.
	MaxKeys int
	// MaxBytes is how long all keys and values may be together. Defaults to 64 MiB.
	MaxBytes int
	// MaxValue is how long one value may be, in bytes. Defaults to 1 MiB.
	MaxValue int
	// Now is the store's clock. Defaults to time.Now.
	Now func() time.Time
}

// Memory is an Adapter for one process, that forgets everything with it: for tests, and for development.
//
// It is bounded, and since it is no cache it forgets nothing that has not lapsed: past its bounds it answers ErrFull.
// What has lapsed is swept by the writes that follow, so it needs no goroutine, and no closing.
type Memory struct {
	opts MemoryOptions

	mu      sync.Mutex
	entries map[string]*entry
	mortal  deadlines // the entries with a lifetime, the one that lapses first in front
	bytes   int
	watches map[*watch]struct{}
}

// NewMemory makes an empty store.
func NewMemory(opts MemoryOptions) *Memory {
	if opts.MaxKeys == 0 {
		opts.MaxKeys = 100_000
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 64 << 20
	}
	if opts.MaxValue == 0 {
		opts.MaxValue = 1 << 20
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Memory{opts: opts, entries: make(map[string]*entry)}
}

// Get implements Adapter.
func (m *Memory) Get(ctx context.Context, key string) (string, bool, error) {
	if err := check(ctx, key, 0); err != nil {
		return "", false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.live(key, m.opts.Now())
	if e == nil {
		return "", false, nil
	}
	return e.value, true, nil
}

// Set implements Adapter.
func (m *Memory) Set(ctx context.Context, key, value string, ttl time.Duration) error {
	if err := check(ctx, key, ttl); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(key, value, ttl, m.opts.Now())
}

// Delete implements Adapter.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := check(ctx, key, 0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Now()
	m.sweep(now, sweepPerWrite)
	if e := m.entries[key]; e != nil {
		m.remove(e, now)
	}
	return nil
}

// DeleteIf implements Adapter.
func (m *Memory) DeleteIf(ctx context.Context, key, expected string) (bool, error) {
	if err := check(ctx, key, 0); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Now()
	m.sweep(now, sweepPerWrite)
	e := m.live(key, now)
	if e == nil || e.value != expected {
		return false, nil
	}
	m.remove(e, now)
	return true, nil
}

// Increment implements Adapter.
func (m *Memory) Increment(ctx context.Context, key string, amount int64) (int64, error) {
	if err := check(ctx, key, 0); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Now()
	e := m.live(key, now)
	if e == nil {
		return amount, m.put(key, strconv.FormatInt(amount, 10), 0, now)
	}
	sum, err := Sum(e.value, amount)
	if err != nil {
		return 0, fmt.Errorf("increment %q: %w", key, err)
	}
	if err := m.write(e, strconv.FormatInt(sum, 10), now); err != nil {
		return 0, err
	}
	return sum, nil
}

// Expire implements Adapter.
func (m *Memory) Expire(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	if err := check(ctx, key, ttl); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Now()
	m.sweep(now, sweepPerWrite)
	e := m.live(key, now)
	if e == nil {
		return false, nil
	}
	m.lease(e, ttl, now)
	return true, nil
}

// Swap implements Adapter.
func (m *Memory) Swap(ctx context.Context, key string, expected *string, next string, ttl time.Duration) (bool, error) {
	if err := check(ctx, key, ttl); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Now()
	e := m.live(key, now)
	if (e == nil) != (expected == nil) || e != nil && e.value != *expected {
		return false, nil
	}
	if err := m.put(key, next, ttl, now); err != nil {
		return false, err
	}
	return true, nil
}

// Keys implements Adapter: it yields the keys that are there when it begins.
func (m *Memory) Keys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := CheckPrefix(prefix); err != nil {
			yield("", err)
			return
		}
		for _, key := range m.begin(prefix) { // without the lock, so that its caller may use the store
			if err := ctx.Err(); err != nil {
				yield("", err)
				return
			}
			if !yield(key, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield("", err)
		}
	}
}

// Wipe implements Adapter.
func (m *Memory) Wipe(ctx context.Context, prefix string) (int, error) {
	if err := errors.Join(ctx.Err(), CheckPrefix(prefix)); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Now()
	n := 0
	for key, e := range m.entries {
		if strings.HasPrefix(key, prefix) {
			if !e.lapsed(now) {
				n++
			}
			m.remove(e, now)
		}
	}
	return n, nil
}

// begin lists the keys that begin with a prefix.
func (m *Memory) begin(prefix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Now()
	var keys []string
	for key, e := range m.entries {
		if strings.HasPrefix(key, prefix) && !e.lapsed(now) {
			keys = append(keys, key)
		}
	}
	return keys
}

func check(ctx context.Context, key string, ttl time.Duration) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if err := CheckTTL(ttl); err != nil {
		return err
	}
	return ctx.Err()
}

// live is a key's entry, or nil where there is none, or where it has lapsed.
func (m *Memory) live(key string, now time.Time) *entry {
	e := m.entries[key]
	if e == nil || e.lapsed(now) {
		return nil
	}
	return e
}

// put stores a value with a lifetime from now on.
func (m *Memory) put(key, value string, ttl time.Duration, now time.Time) error {
	e := m.entries[key]
	if e == nil || e.lapsed(now) { // a lapsed one is removed by room, if it has to be
		e = &entry{key: key, place: immortal}
	}
	if err := m.write(e, value, now); err != nil {
		return err
	}
	m.lease(e, ttl, now)
	return nil
}

// write gives an entry its value, and adds it to the store if it is new.
func (m *Memory) write(e *entry, value string, now time.Time) error {
	if len(value) > m.opts.MaxValue {
		return fmt.Errorf("%w: has %d bytes, at most %d are allowed", ErrTooLarge, len(value), m.opts.MaxValue)
	}
	m.sweep(now, sweepPerWrite)
	old := m.entries[e.key]
	if old != nil && old != e { // lapsed, and not yet swept
		m.remove(old, now)
		old = nil
	}
	keys, bytes := 0, len(value)
	if old == nil {
		keys, bytes = 1, len(e.key)+len(value)
	} else {
		bytes -= len(old.value)
	}
	if err := m.room(keys, bytes, now); err != nil {
		return err
	}
	e.value = value
	m.entries[e.key] = e
	m.bytes += bytes
	m.note(e.key, now)
	return nil
}

// room makes room for what a write adds, by all that has lapsed if need be.
func (m *Memory) room(keys, bytes int, now time.Time) error {
	for len(m.entries)+keys > m.opts.MaxKeys || m.bytes+bytes > m.opts.MaxBytes {
		if m.sweep(now, sweepPerWrite) > 0 {
			continue
		}
		if keys > 0 && len(m.entries)+keys > m.opts.MaxKeys {
			return fmt.Errorf("%w: it has %d keys, at most %d are allowed", ErrFull, len(m.entries), m.opts.MaxKeys)
		}
		if bytes <= 0 { // what makes the store smaller always fits
			return nil
		}
		return fmt.Errorf("%w: it has %d bytes, %d more would pass the limit of %d", ErrFull, m.bytes, bytes, m.opts.MaxBytes)
	}
	return nil
}

// lease gives an entry of the store a lifetime from now on, or none with 0.
func (m *Memory) lease(e *entry, ttl time.Duration, now time.Time) {
	switch {
	case ttl == 0:
		m.disown(e)
	case e.place == immortal:
		e.until = now.Add(ttl)
		heap.Push(&m.mortal, e)
	default:
		e.until = now.Add(ttl)
		heap.Fix(&m.mortal, e.place)
	}
	m.note(e.key, now)
}

func (m *Memory) remove(e *entry, now time.Time) {
	m.disown(e)
	delete(m.entries, e.key)
	m.bytes -= len(e.key) + len(e.value)
	m.note(e.key, now)
}

func (m *Memory) disown(e *entry) {
	if e.place != immortal {
		heap.Remove(&m.mortal, e.place)
	}
}
