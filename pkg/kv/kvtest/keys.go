package kvtest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func keyLengths(e *env) {
	long := strings.Repeat("k", kv.MaxKey)
	wide := strings.Repeat("é", kv.MaxKey/2)           // as many bytes, half the runes
	worst := strings.Repeat(" ", kv.MaxKey)            // as many bytes, each of which may need an escape
	quads := strings.Repeat("\U0001F680", kv.MaxKey/4) // the longest runes
	for i, key := range []string{"k", long, wide, worst, quads} {
		e.set(key, strconv.Itoa(i), 0)
	}
	for i, key := range []string{"k", long, wide, worst, quads} {
		e.has(key, strconv.Itoa(i))
	}
	require.True(e, e.swap(worst, new("3"), "4", time.Hour))
	require.EqualValues(e, 5, e.increment(worst, 1))
	require.ElementsMatch(e, []string{"k", long, wide, worst, quads}, e.keys(""))

	for _, key := range []string{"", long + "k", long[:kv.MaxKey-1] + "é", strings.Repeat("k", 4096)} {
		e.refusesKey(key)
	}
}

// refusesKey tests that no operation takes a key, and that none has an effect.
func (e *env) refusesKey(key string) {
	e.Helper()
	for name, op := range e.operations(key, 0) {
		require.ErrorIs(e, op(), kv.ErrKey, "%s of a key of %d bytes: %.40q", name, len(key), key)
	}
}

// operations are all that take a key, and a lifetime if they take one.
func (e *env) operations(key string, ttl time.Duration) map[string]func() error {
	ops := map[string]func() error{
		"get":       func() error { _, _, err := e.a.Get(e.ctx, key); return err },
		"delete":    func() error { return e.a.Delete(e.ctx, key) },
		"deleteIf":  func() error { _, err := e.a.DeleteIf(e.ctx, key, "v"); return err },
		"increment": func() error { _, err := e.a.Increment(e.ctx, key, 1); return err },
	}
	for name, op := range e.leases(key, ttl) {
		ops[name] = op
	}
	return ops
}

// leases are the operations that take a lifetime.
func (e *env) leases(key string, ttl time.Duration) map[string]func() error {
	return map[string]func() error{
		"set":             func() error { return e.a.Set(e.ctx, key, "v", ttl) },
		"expire":          func() error { _, err := e.a.Expire(e.ctx, key, ttl); return err },
		"swap":            func() error { _, err := e.a.Swap(e.ctx, key, new("v"), "w", ttl); return err },
		"swap of nothing": func() error { _, err := e.a.Swap(e.ctx, key, nil, "w", ttl); return err },
	}
}

func anyText(e *env) {
	var texts []string
	for c := range 128 { // every byte of ASCII, alone and within
		texts = append(texts, string(rune(c)), "a"+string(rune(c))+"z", "."+string(rune(c)), string(rune(c))+".")
	}
	texts = append(texts,
		"..", "...", "a..b", ".a", "a.", "..a..", "/a", "a/", "//", "a//b", "a/./b", "a/../b", "/.", "./",
		"user:1@example.org", "user 1", " user", "café", "cafe\u0301", "$G", "$JS.API.>", "$KV.x.y", "_INBOX.x", "a.*", "a.>",
		"*.>", "==", "=2E", "=2e", "%2F", "%", "\\u0000", "a\x00b", "\r\n", "a\r\nNats-TTL: 1", "\u2028", "\ufeff", "\ufffd",
		"日本語", "\U0001F680", "\U0010FFFF", "-", "_", "-a", "_a", "null", "0", "-0", "v/space/key", "list/space/key",
	)
	seen := map[string]bool{}
	distinct := texts[:0:0]
	for _, text := range texts {
		if !seen[text] {
			seen[text] = true
			distinct = append(distinct, text)
		}
	}
	writeAll(e.T, e.ctx, e.a, distinct)
	for _, key := range distinct {
		e.has(key, "value of "+key)
	}
	require.ElementsMatch(e, distinct, e.keys(""))

	for i, key := range distinct { // as keys of every other operation
		switch i % 4 {
		case 0:
			require.True(e, e.swap(key, new("value of "+key), "2", 0), "swap %q", key)
			require.EqualValues(e, 3, e.increment(key, 1), "increment %q", key)
		case 1:
			require.True(e, e.expire(key, time.Hour), "expire %q", key)
			e.has(key, "value of "+key)
		case 2:
			require.True(e, e.deleteIf(key, "value of "+key), "deleteIf %q", key)
			e.absent(key)
		case 3:
			require.NoError(e, e.a.Delete(e.ctx, key), "delete %q", key)
			e.absent(key)
		}
	}
}

func caseAndSpaces(e *env) {
	boards := []string{"Board", "board", "board ", " board", "BOARD", "board\t", "board\n", "board\u00a0"}
	for i, key := range boards {
		require.EqualValues(e, i, e.increment(key, int64(i)))
	}
	for i, key := range boards {
		e.has(key, strconv.Itoa(i))
	}
	require.NoError(e, e.a.Delete(e.ctx, "board"))
	e.absent("board")
	e.has("Board", "0")
	e.has("board ", "2")
}

func noPatterns(e *env) {
	kept := []string{"a", "a.b", "a.b.c", "ab", "a/b"}
	writeAll(e.T, e.ctx, e.a, kept)
	for _, key := range []string{"*", ">", "a.*", "a.>", "a.*.c", "*.b", "a*", "?", "a.", "."} {
		e.absent(key)
		require.False(e, e.expire(key, time.Hour), "expire %q", key)
		require.False(e, e.deleteIf(key, "value of a.b"), "deleteIf %q", key)
		require.NoError(e, e.a.Delete(e.ctx, key))
		require.True(e, e.swap(key, nil, "v", 0), "swap %q", key)
		require.NoError(e, e.a.Delete(e.ctx, key))
	}
	for _, prefix := range []string{"*", ">", "a.*", "a.>", "*.", "a*", "?"} {
		require.Empty(e, e.keys(prefix), "keys %q", prefix)
		n, err := e.a.Wipe(e.ctx, prefix)
		require.NoError(e, err)
		require.Zero(e, n, "wipe %q", prefix)
	}
	for _, key := range kept {
		e.has(key, "value of "+key)
	}
}

func noText(e *env) {
	for _, key := range []string{"\xff", "a\xffz", "\xc3", "caf\xc3", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80"} {
		e.refusesKey(key)
		_, err := e.a.Wipe(e.ctx, key)
		require.ErrorIs(e, err, kv.ErrKey, "wipe %q", key)
		require.ErrorIs(e, listing(e, key), kv.ErrKey, "keys %q", key)
	}
	long := strings.Repeat("k", kv.MaxKey+1)
	_, err := e.a.Wipe(e.ctx, long)
	require.ErrorIs(e, err, kv.ErrKey)
	require.ErrorIs(e, listing(e, long), kv.ErrKey)
	require.Empty(e, e.keys(""))
}

// listing is the error that a list of keys ends with, which has to be its last pair, and one without a key.
func listing(e *env, prefix string) error {
	var last error
	for key, err := range e.a.Keys(e.ctx, prefix) {
		require.NoError(e, last, "an error is the last pair")
		if err != nil {
			require.Empty(e, key)
		}
		last = err
	}
	return last
}

func setClears(e *env) {
	e.set("k", "1", time.Second)
	e.set("k", "2", 0)
	e.set("other", "1", time.Second)
	require.NoError(e, e.a.Delete(e.ctx, "other"))
	e.set("other", "2", 0)
	e.set("longer", "1", time.Second)
	e.set("longer", "2", time.Hour)
	e.set("shorter", "1", time.Hour)
	e.set("shorter", "2", time.Second)
	e.outlive(time.Second)
	e.has("k", "2")
	e.has("other", "2")
	e.has("longer", "2")
	e.absent("shorter")
}

func swapClears(e *env) {
	e.set("k", "1", time.Second)
	swapped := e.swap("k", new("1"), "2", 0)
	e.set("same", "1", time.Second)
	same := e.swap("same", new("1"), "1", 0)
	e.outlive(time.Second)
	if swapped { // or a slow store has let it lapse before
		e.has("k", "2")
	}
	if same {
		e.has("same", "1")
	}
	if _, ok := e.a.(Clock); ok {
		require.True(e, swapped && same)
	}
}

// writeAll sets keys to "value of <key>", many at a time.
func writeAll(t *testing.T, ctx context.Context, a kv.Adapter, keys []string) {
	t.Helper()
	work := make(chan string)
	errs := make(chan error, len(keys))
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for key := range work {
				if err := a.Set(ctx, key, "value of "+key, 0); err != nil {
					errs <- fmt.Errorf("set %q: %w", key, err)
				}
			}
		})
	}
	for _, key := range keys {
		work <- key
	}
	close(work)
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}
