// Package kvtest is the contract of a key/value adapter as a suite of tests. Every implementation of kv.Adapter runs it;
// one test stands for one sentence of the contract, and is named after its paragraph.
//
// It promises that an implementation that passes keeps strings by any key that is text, forgets them on time, and loses
// nothing to a race. It leaves to others what happens when a process, a server or a link dies in the middle of a write.
package kvtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Clock is the capability of an adapter whose store's clock a test can put forward. Where it lacks, tests wait.
type Clock interface {
	Advance(d time.Duration)
}

// Limited is the capability of a limit: a value of that many bytes is too large.
type Limited interface {
	TooLarge() int
}

// Clients is the capability of a second client of the same store, with a connection of its own.
type Clients interface {
	Client(t *testing.T) kv.Adapter
}

// grace is how long after its lifetime a key may still answer, by a clock that is not the store's.
const grace = 200 * time.Millisecond

// Run tests one implementation: each test on a store of its own, which newAdapter hands out empty, and cleans up by
// t.Cleanup; many at a time. What an adapter can do beyond kv.Adapter is found by assertion: see Clock, Limited, Clients, and kv.Watcher.
func Run(t *testing.T, newAdapter func(t *testing.T) kv.Adapter) {
	for _, c := range []struct {
		name string
		test func(*env)
	}{
		{"1_keys_have_a_length_in_bytes", keyLengths},
		{"1_keys_may_be_any_text", anyText},
		{"1_case_and_spaces_make_a_key", caseAndSpaces},
		{"1_keys_are_no_patterns", noPatterns},
		{"1_what_is_no_text_is_no_key", noText},
		{"1_a_set_clears_an_earlier_lifetime", setClears},
		{"1_a_swap_clears_an_earlier_lifetime", swapClears},
		{"2_a_large_value_comes_back_whole", largeValue},
		{"2_values_may_be_any_bytes", anyValue},
		{"2_a_value_over_the_limit_is_refused", overLimit},
		{"3_a_lapsed_key_answers_nothing", lapsed},
		{"3_a_lapsed_key_is_absent_to_every_write", lapsedIsAbsent},
		{"3_lifetimes_have_milliseconds", millis},
		{"3_a_lifetime_may_be_as_long_as_a_duration", longest},
		{"3_what_is_no_lifetime_is_refused", noLifetime},
		{"4_increment_counts_from_zero", incrementFromZero},
		{"4_increment_loses_nothing_to_a_race", incrementRace},
		{"4_increment_keeps_the_lifetime", incrementKeeps},
		{"4_a_lapsed_counter_starts_again_without_a_lifetime", incrementLapsed},
		{"4_only_integers_are_incremented", notIntegers},
		{"4_a_sum_stays_within_64_bits", edges},
		{"5_expire_gives_no_lifetime_to_what_is_not_there", expireAbsent},
		{"5_expire_counts_from_now", expireCounts},
		{"5_expire_with_none_makes_a_key_stay", expireNone},
		{"6_swap_compares_exact_bytes", swapExact},
		{"6_swap_expecting_nothing_writes_where_nothing_is", swapNothing},
		{"6_swap_of_the_same_value_is_true", swapSame},
		{"6_of_12_swaps_one_wins", swapRace},
		{"6_a_swap_has_the_lifetime_asked_for", swapLifetime},
		{"6_a_lost_swap_changes_nothing", swapLost},
		{"7_delete_leaves_nothing", deletes},
		{"7_delete_if_compares_exact_bytes", deleteIf},
		{"7_of_12_delete_ifs_one_wins", deleteIfRace},
		{"8_keys_are_those_with_the_prefix", keys},
		{"8_keys_are_all_of_many", manyKeys},
		{"8_keys_leave_out_what_lapsed", keysLapsed},
		{"8_keys_may_be_left_early_and_written_meanwhile", keysMeanwhile},
		{"8_wipe_removes_what_has_the_prefix", wipe},
		{"8_a_wiped_key_is_absent", wiped},
		{"9_a_cancelled_context_changes_nothing", cancelled},
		{"10_a_watch_tells_what_is_there_and_what_changes", watchTellsAll},
		{"10_a_watch_may_tell_changes_only", watchChanges},
		{"10_a_watch_tells_what_lapses", watchLapses},
		{"10_a_watch_knows_its_prefix", watchPrefix},
		{"10_a_watch_tells_of_many", watchMany},
		{"10_a_watch_ends_with_its_context", watchEnds},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			c.test(&env{T: t, ctx: ctx, a: newAdapter(t)})
		})
	}
}

// env is one test: its store, and words to test it with.
type env struct {
	*testing.T
	ctx context.Context
	a   kv.Adapter
}

// client is a second client of the store, or the first one where there is no other.
func (e *env) client() kv.Adapter {
	if c, ok := e.a.(Clients); ok {
		return c.Client(e.T)
	}
	return e.a
}

// advance lets that much time pass for the store.
func (e *env) advance(d time.Duration) {
	if c, ok := e.a.(Clock); ok {
		c.Advance(d)
		return
	}
	select {
	case <-time.After(d):
	case <-e.ctx.Done():
		require.NoError(e, e.ctx.Err())
	}
}

// outlive lets a lifetime that began by now pass.
func (e *env) outlive(ttl time.Duration) { e.advance(ttl + grace) }

func (e *env) set(key, value string, ttl time.Duration) {
	e.Helper()
	require.NoError(e, e.a.Set(e.ctx, key, value, ttl), "set %q", key)
}

func (e *env) has(key, want string) {
	e.Helper()
	got, ok, err := e.a.Get(e.ctx, key)
	require.NoError(e, err, "get %q", key)
	require.True(e, ok, "get %q: there is nothing", key)
	if got != want { // not printed whole: it may be long
		require.Fail(e, "another value", "get %q: %d bytes %.80q, want %d bytes %.80q", key, len(got), got, len(want), want)
	}
}

func (e *env) absent(key string) {
	e.Helper()
	got, ok, err := e.a.Get(e.ctx, key)
	require.NoError(e, err, "get %q", key)
	require.False(e, ok, "get %q: there is %q", key, got)
	require.Empty(e, got)
}

func (e *env) swap(key string, expected *string, next string, ttl time.Duration) bool {
	e.Helper()
	ok, err := e.a.Swap(e.ctx, key, expected, next, ttl)
	require.NoError(e, err, "swap %q", key)
	return ok
}

func (e *env) increment(key string, amount int64) int64 {
	e.Helper()
	sum, err := e.a.Increment(e.ctx, key, amount)
	require.NoError(e, err, "increment %q", key)
	return sum
}

func (e *env) expire(key string, ttl time.Duration) bool {
	e.Helper()
	ok, err := e.a.Expire(e.ctx, key, ttl)
	require.NoError(e, err, "expire %q", key)
	return ok
}

func (e *env) deleteIf(key, expected string) bool {
	e.Helper()
	ok, err := e.a.DeleteIf(e.ctx, key, expected)
	require.NoError(e, err, "deleteIf %q", key)
	return ok
}

// keys lists the keys with a prefix; one that comes twice fails the test.
func (e *env) keys(prefix string) []string {
	e.Helper()
	found := []string{}
	seen := map[string]bool{}
	for key, err := range e.a.Keys(e.ctx, prefix) {
		require.NoError(e, err, "keys %q", prefix)
		require.False(e, seen[key], "keys %q: %q came twice", prefix, key)
		seen[key] = true
		found = append(found, key)
	}
	return found
}

const racers = 12

// race runs fn by 12 writers at once, half of them on a second client, and fails if any does.
func (e *env) race(fn func(writer int, a kv.Adapter) error) {
	e.Helper()
	clients := []kv.Adapter{e.a, e.client()}
	start := make(chan struct{})
	errs := make(chan error, racers)
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() {
			<-start
			if err := fn(i, clients[i%2]); err != nil {
				errs <- fmt.Errorf("writer %d: %w", i, err)
			}
		})
	}
	close(start)
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(e, err)
	}
}
