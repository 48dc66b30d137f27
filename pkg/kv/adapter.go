// Package kv is a key/value store for programs that count, lock and remember: JSON values with lifetimes, counters whose
// window closes, read-modify-write under contention, and ranked lists, in spaces that cannot reach each other.
//
// Store has the semantics, over any Adapter: one on a JetStream bucket (package kvbucket), and one in memory. It is no
// cache: where the adapter cannot answer, its caller fails.
package kv

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Limits of a key, in bytes. Keys are any bytes that are UTF-8 text; case and every space count.
const (
	MinKey = 1
	MaxKey = 764
)

// Errors that callers branch on.
var (
	// ErrKey: a key is empty, too long, or no UTF-8.
	ErrKey = errors.New("invalid key")
	// ErrTTL: a lifetime is negative, or too short to be told from none.
	ErrTTL = errors.New("invalid lifetime")
	// ErrTooLarge: a value does not fit the store's limit.
	ErrTooLarge = errors.New("value too large")
	// ErrNotInteger: what is to be incremented is no integer, or would leave the 64 bits of one.
	ErrNotInteger = errors.New("not an integer")
	// ErrUnknown: no answer came, and what became of the write cannot be found out.
	ErrUnknown = errors.New("outcome unknown")
)

// Adapter keeps strings by key. It is safe for concurrent use.
//
// A lifetime (ttl) of 0 is none; others have the precision of milliseconds, and count by the store's clock from the
// write on. Past it the key answers nothing at once, whether or not it has been removed, and counts as absent.
type Adapter interface {
	// Get answers a key's value; false where there is none.
	Get(ctx context.Context, key string) (string, bool, error)
	// Set stores a value. An earlier lifetime is replaced, also by none.
	Set(ctx context.Context, key, value string, ttl time.Duration) error
	// Delete removes a key. One that is not there is none the less gone.
	Delete(ctx context.Context, key string) error
	// DeleteIf removes a key if its value is exactly the expected one, and answers whether it did.
	DeleteIf(ctx context.Context, key, expected string) (bool, error)
	// Increment adds to an integer, absent counting as zero, and answers the sum. The lifetime stays as it is.
	Increment(ctx context.Context, key string, amount int64) (int64, error)
	// Expire gives a key a lifetime from now on, or none with 0; false where there is no key.
	Expire(ctx context.Context, key string, ttl time.Duration) (bool, error)
	// Swap stores next if the key's value is exactly the expected one, or, expecting nil, if there is none. It answers
	// whether the value is next by this call, also where that is what stood there before.
	Swap(ctx context.Context, key string, expected *string, next string, ttl time.Duration) (bool, error)
	// Keys yields the keys that begin with a prefix, in no order; those written or removed meanwhile may or may not be
	// among them. An error is the last pair.
	Keys(ctx context.Context, prefix string) iter.Seq2[string, error]
	// Wipe removes the keys that begin with a prefix, those that are there when it begins, and answers how many.
	Wipe(ctx context.Context, prefix string) (int, error)
}
