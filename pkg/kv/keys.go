package kv

import (
	"context"
	"fmt"
	"iter"
	"strings"
)

// Keys of the adapter are v/<space>/<key> for values and list/<space>/<name> for lists. What stands between the first
// two slashes has none of its own, so no space's keys begin like another's, and no key of a caller's reaches the segment
// before its space.

// escape writes a space's name without a slash: / is =2F, and = is =3D.
func escape(space string) string {
	return strings.NewReplacer("=", "=3D", "/", "=2F").Replace(space)
}

// compose is the adapter's key of a key of the space's, after one of its two prefixes.
func (s *Space) compose(prefix, key string) (string, error) {
	if s.err == nil && key == "" {
		return "", fmt.Errorf("%w: must not be empty", ErrKey)
	}
	return s.begin(prefix, key)
}

// begin is compose for what keys begin with.
func (s *Space) begin(prefix, key string) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	if left := MaxKey - len(prefix); len(key) > left {
		return "", fmt.Errorf("%w: has %d bytes, at most %d are left beside the name of its space", ErrKey, len(key), left)
	}
	return prefix + key, CheckPrefix(prefix + key)
}

// Keys yields the keys of the space's values that begin with a prefix, in no order. An error is the last pair.
func (s *Space) Keys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return s.list(ctx, "list the keys", s.values, prefix)
}

// ListNames yields the names of the space's lists that begin with a prefix, in no order. An error is the last pair.
func (s *Space) ListNames(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return s.list(ctx, "list the lists", s.lists, prefix)
}

func (s *Space) list(ctx context.Context, op, segment, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		composed, err := s.begin(segment, prefix)
		if err != nil {
			yield("", s.failed(op, prefix, err))
			return
		}
		for key, err := range s.store.adapter.Keys(ctx, composed) {
			if err != nil {
				yield("", s.failed(op, prefix, err))
				return
			}
			if !yield(strings.TrimPrefix(key, segment), nil) {
				return
			}
		}
	}
}

// Wipe removes all of the space, its values and its lists, and answers how many there were. Where it fails, some of them
// may be left.
func (s *Space) Wipe(ctx context.Context) (int, error) {
	if s.err != nil {
		return 0, s.failed("wipe", "", s.err)
	}
	wiped := 0
	for _, segment := range []string{s.values, s.lists} {
		n, err := s.store.adapter.Wipe(ctx, segment)
		wiped += n
		if err != nil {
			return wiped, s.failed("wipe", "", err)
		}
	}
	return wiped, nil
}
