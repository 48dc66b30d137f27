package kv

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// CheckKey refuses what is no key. Every Adapter takes exactly the keys that it takes.
func CheckKey(key string) error {
	if len(key) < MinKey {
		return fmt.Errorf("%w: must not be empty", ErrKey)
	}
	return CheckPrefix(key)
}

// CheckPrefix refuses what no key can begin with. The empty prefix is one that all keys have.
func CheckPrefix(prefix string) error {
	switch {
	case len(prefix) > MaxKey:
		return fmt.Errorf("%w: has %d bytes, at most %d are allowed", ErrKey, len(prefix), MaxKey)
	case !utf8.ValidString(prefix):
		return fmt.Errorf("%w: is not valid UTF-8", ErrKey)
	}
	return nil
}

// CheckTTL refuses what is no lifetime: one that is negative, and one that would be none if it were cut to milliseconds.
func CheckTTL(ttl time.Duration) error {
	switch {
	case ttl < 0:
		return fmt.Errorf("%w: %s is negative", ErrTTL, ttl)
	case ttl > 0 && ttl < time.Millisecond:
		return fmt.Errorf("%w: %s is under a millisecond (for none, give 0)", ErrTTL, ttl)
	}
	return nil
}
