package kv

import (
	"context"
	"fmt"
	"reflect"
	"time"
)

// Space is a part of a Store with keys of its own: none of its operations can read or write another's. A key is UTF-8
// of 1 byte or more; how many are allowed depends on the length of the space's name: 567 always, unless there are slashes
// or = in it, which take three bytes each. A lifetime (ttl) of 0 is none, and the least is a millisecond.
//
// Values are whatever json.Marshal takes, with durations as Go writes them ("1m30s").
type Space struct {
	store         *Store
	name          string
	err           error  // what is wrong with the name
	values, lists string // what the adapter's keys begin with
}

// Name is the space's name.
func (s *Space) Name() string { return s.name }

// Get reads a key's value into what into points to, and answers whether there is one. What something else wrote and is
// no JSON is the string that it is; in an any, numbers are float64. See the function Get for a value of a known type.
func (s *Space) Get(ctx context.Context, key string, into any) (bool, error) {
	composed, err := s.compose(s.values, key)
	if err != nil {
		return false, s.failed("get", key, err)
	}
	raw, ok, err := s.store.adapter.Get(ctx, composed)
	if err == nil && ok {
		err = decode(raw, into)
	}
	if err != nil {
		return false, s.failed("get", key, err)
	}
	return ok, nil
}

// Set stores a value. An earlier lifetime is replaced, also by none.
func (s *Space) Set(ctx context.Context, key string, value any, ttl time.Duration) error {
	composed, err := s.compose(s.values, key)
	if err != nil {
		return s.failed("set", key, err)
	}
	raw, err := encode(value)
	if err == nil {
		err = s.store.adapter.Set(ctx, composed, raw, ttl)
	}
	if err != nil {
		return s.failed("set", key, err)
	}
	return nil
}

// Delete removes a key. One that is not there is none the less gone.
func (s *Space) Delete(ctx context.Context, key string) error {
	composed, err := s.compose(s.values, key)
	if err == nil {
		err = s.store.adapter.Delete(ctx, composed)
	}
	if err != nil {
		return s.failed("delete", key, err)
	}
	return nil
}

// DeleteIf removes a key if its value is the expected one, as Set would write it, and answers whether it did.
func (s *Space) DeleteIf(ctx context.Context, key string, expected any) (bool, error) {
	composed, err := s.compose(s.values, key)
	if err != nil {
		return false, s.failed("delete", key, err)
	}
	raw, err := encode(expected)
	if err != nil {
		return false, s.failed("delete", key, err)
	}
	ok, err := s.store.adapter.DeleteIf(ctx, composed, raw)
	if err != nil {
		return false, s.failed("delete", key, err)
	}
	return ok, nil
}

// Expire gives a key a lifetime from now on, or none with 0; false where there is no key.
func (s *Space) Expire(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	composed, err := s.compose(s.values, key)
	if err != nil {
		return false, s.failed("expire", key, err)
	}
	ok, err := s.store.adapter.Expire(ctx, composed, ttl)
	if err != nil {
		return false, s.failed("expire", key, err)
	}
	return ok, nil
}

// Swap stores next if the key's value is the expected one, as Set would write it, or, expecting nil, if there is none (a
// nil pointer is that as well; the value null is jsontext.Value("null")). It
// answers whether the value is next by this call. To write what depends on a value that something else may have written
// in its own way, use Change.
func (s *Space) Swap(ctx context.Context, key string, expected, next any, ttl time.Duration) (bool, error) {
	if nothing(expected) {
		return s.swap(ctx, key, nil, next, ttl)
	}
	raw, err := encode(expected)
	if err != nil {
		return false, s.failed("swap", key, err)
	}
	return s.swap(ctx, key, &raw, next, ttl)
}

// nothing reports whether a value is nil, or a pointer that is, whatever its type.
func nothing(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

func (s *Space) swap(ctx context.Context, key string, expected *string, next any, ttl time.Duration) (bool, error) {
	composed, err := s.compose(s.values, key)
	if err != nil {
		return false, s.failed("swap", key, err)
	}
	raw, err := encode(next)
	if err != nil {
		return false, s.failed("swap", key, err)
	}
	ok, err := s.store.adapter.Swap(ctx, composed, expected, raw, ttl)
	if err != nil {
		return false, s.failed("swap", key, err)
	}
	return ok, nil
}

// failed says which operation failed, for an operator: unlike a refusal it names the key.
func (s *Space) failed(op, key string, err error) error {
	if key == "" {
		return fmt.Errorf("kv: %s in space %.200q: %w", op, s.name, err)
	}
	return fmt.Errorf("kv: %s %.200q in space %.200q: %w", op, key, s.name, err)
}
