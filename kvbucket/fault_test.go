package kvbucket

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// isPublish reports whether a frame to the server is a publish to a subject.
func isPublish(frame []byte, subject string) bool {
	return bytes.Contains(frame, []byte("PUB "+subject+" "))
}

func assertNoError(t *testing.T, err error) { t.Helper(); assert.NoError(t, err) }

// Every operation once with its answer lost, and once with the publish itself lost: it is done, and done once.
func TestALostAnswerIsResolved(t *testing.T) {
	t.Parallel()
	yes := func(ok bool, err error) error {
		if err == nil && !ok {
			return assert.AnError
		}
		return err
	}
	for name, c := range map[string]struct {
		before string // value; none if empty
		do     func(context.Context, *Bucket) error
		after  string
	}{
		"set of a new key":  {"", func(ctx context.Context, b *Bucket) error { return b.Set(ctx, "k", "new", 0) }, "new"},
		"set over a value":  {"old", func(ctx context.Context, b *Bucket) error { return b.Set(ctx, "k", "new", time.Hour) }, "new"},
		"delete":            {"old", func(ctx context.Context, b *Bucket) error { return b.Delete(ctx, "k") }, ""},
		"delete of nothing": {"", func(ctx context.Context, b *Bucket) error { return b.Delete(ctx, "k") }, ""},
		"deleteIf":          {"old", func(ctx context.Context, b *Bucket) error { return yes(b.DeleteIf(ctx, "k", "old")) }, ""},
		"expire":            {"old", func(ctx context.Context, b *Bucket) error { return yes(b.Expire(ctx, "k", time.Hour)) }, "old"},
		"swap":              {"old", func(ctx context.Context, b *Bucket) error { return yes(b.Swap(ctx, "k", new("old"), "new", 0)) }, "new"},
		"swap of nothing":   {"", func(ctx context.Context, b *Bucket) error { return yes(b.Swap(ctx, "k", nil, "new", 0)) }, "new"},
		"swap to the same":  {"old", func(ctx context.Context, b *Bucket) error { return yes(b.Swap(ctx, "k", new("old"), "old", 0)) }, "old"},
		"increment": {"5", func(ctx context.Context, b *Bucket) error {
			n, err := b.Increment(ctx, "k", 2)
			return yes(n == 7, err)
		}, "7"},
		"increment from new": {"", func(ctx context.Context, b *Bucket) error {
			n, err := b.Increment(ctx, "k", 2)
			return yes(n == 2, err)
		}, "2"},
		"wipe": {"old", func(ctx context.Context, b *Bucket) error { n, err := b.Wipe(ctx, "k"); return yes(n == 1, err) }, ""},
	} {
		for fault, lose := range map[string]func(*natstest.FaultDialer){
			"the answer": func(d *natstest.FaultDialer) { d.DropFromServer(1, natstest.IsPubAck) },
			"the write": func(d *natstest.FaultDialer) {
				d.DropToServer(1, func(frame []byte) bool { return isPublish(frame, "$KV.JETCREW_KV.k") })
			},
			"two answers": func(d *natstest.FaultDialer) { d.DropFromServer(2, natstest.IsPubAck) },
		} {
			t.Run(name+", "+fault, func(t *testing.T) {
				t.Parallel()
				d := &natstest.FaultDialer{}
				url := server(t)
				b, other := open(t, url, config(), d.Option()), open(t, url, config())
				b.timeout = 700 * time.Millisecond
				if c.before != "" {
					set(t, other, "k", c.before, 0)
				}
				_, _, err := b.Get(t.Context(), "k")
				require.NoError(t, err)
				lose(d)
				require.NoError(t, c.do(t.Context(), b))
				from, to := d.Dropped()
				require.Positive(t, from+to, "nothing was lost")
				if c.after == "" {
					absent(t, other, "k")
				} else {
					has(t, other, "k", c.after)
				}
			})
		}
	}
}

// lostBetween loses b's next write of "k", or its answer, and has others write before b looks for it.
func lostBetween(t *testing.T, stored bool, others func(*Bucket), do func(*Bucket)) {
	t.Helper()
	d := &natstest.FaultDialer{}
	url := server(t)
	b, other := open(t, url, config(), d.Option()), open(t, url, config())
	b.timeout = 700 * time.Millisecond
	set(t, b, "k", "1", 0)
	lost := func() bool { from, to := d.Dropped(); return from+to > 0 }
	if stored {
		d.DropFromServer(1, natstest.IsPubAck)
	} else {
		d.DropToServer(1, func(frame []byte) bool { return isPublish(frame, "$KV.JETCREW_KV.k") })
	}
	var all sync.WaitGroup
	all.Go(func() {
		for !lost() && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		// Not to be found out before they have written.
		d.DropToServer(-1, func(frame []byte) bool { return bytes.Contains(frame, []byte(".STREAM.MSG.GET.")) })
		others(other)
		d.Heal()
	})
	do(b)
	all.Wait()
	require.True(t, lost())
}

func TestWhatOthersWroteSinceDecides(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	t.Run("a swap that was not stored, and lost", func(t *testing.T) {
		t.Parallel()
		lostBetween(t, false, func(o *Bucket) {
			ok, err := o.Swap(ctx, "k", new("1"), "2", 0)
			assert.NoError(t, err)
			assert.True(t, ok)
		}, func(b *Bucket) {
			ok, err := b.Swap(ctx, "k", new("1"), "3", 0)
			require.NoError(t, err, "the other one names the revision that ours was to replace")
			require.False(t, ok)
			has(t, b, "k", "2")
		})
	})
	t.Run("a swap that was stored, and overwritten", func(t *testing.T) {
		t.Parallel()
		lostBetween(t, true, func(o *Bucket) {
			ok, err := o.Swap(ctx, "k", new("3"), "4", 0)
			assert.NoError(t, err)
			assert.True(t, ok)
		}, func(b *Bucket) {
			_, err := b.Swap(ctx, "k", new("1"), "3", 0)
			require.ErrorIs(t, err, kv.ErrUnknown)
			has(t, b, "k", "4")
		})
	})
	t.Run("an increment that was stored, and added to", func(t *testing.T) {
		t.Parallel()
		lostBetween(t, true, func(o *Bucket) {
			sum, err := o.Increment(ctx, "k", 10)
			assert.NoError(t, err)
			assert.EqualValues(t, 12, sum)
		}, func(b *Bucket) {
			_, err := b.Increment(ctx, "k", 1)
			require.ErrorIs(t, err, kv.ErrUnknown)
			has(t, b, "k", "12")
		})
	})
	t.Run("an increment that was not stored, beside another", func(t *testing.T) {
		t.Parallel()
		lostBetween(t, false, func(o *Bucket) {
			sum, err := o.Increment(ctx, "k", 10)
			assert.NoError(t, err)
			assert.EqualValues(t, 11, sum)
		}, func(b *Bucket) {
			sum, err := b.Increment(ctx, "k", 1)
			require.NoError(t, err)
			require.EqualValues(t, 12, sum)
		})
	})
	t.Run("an increment whose key was set", func(t *testing.T) {
		t.Parallel()
		lostBetween(t, false, func(o *Bucket) { assert.NoError(t, o.Set(ctx, "k", "100", 0)) }, func(b *Bucket) {
			_, err := b.Increment(ctx, "k", 1)
			require.ErrorIs(t, err, kv.ErrUnknown, "a set hides whether ours was there before it")
			has(t, b, "k", "100")
		})
	})
	t.Run("a set that was not stored, before a swap", func(t *testing.T) {
		t.Parallel()
		lostBetween(t, false, func(o *Bucket) {
			ok, err := o.Swap(ctx, "k", new("1"), "2", 0)
			assert.NoError(t, err)
			assert.True(t, ok)
		}, func(b *Bucket) {
			require.NoError(t, b.Set(ctx, "k", "3", 0))
			has(t, b, "k", "3")
		})
	})
	t.Run("a set that was stored, before a swap", func(t *testing.T) {
		t.Parallel()
		lostBetween(t, true, func(o *Bucket) {
			ok, err := o.Swap(ctx, "k", new("3"), "4", 0)
			assert.NoError(t, err)
			assert.True(t, ok)
		}, func(b *Bucket) {
			require.ErrorIs(t, b.Set(ctx, "k", "3", 0), kv.ErrUnknown)
			has(t, b, "k", "4")
		})
	})
}

// What the last message of a key says of a write that had no answer.
func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := &Bucket{cfg: Config{Clock: wall{}, MarkerTTL: 30 * time.Second}, clock: wall{}}
	guarded := write{nonce: "ours", guarded: true, guard: 7, began: now}
	known := write{nonce: "ours", guarded: true, guard: 7, floor: 9, began: now}
	created := write{nonce: "ours", guarded: true, guard: 0, began: now}
	plain := write{nonce: "ours", plain: true, floor: 9, began: now}
	marker := write{nonce: "ours", plain: true, marker: true, floor: 9, began: now}
	mortal := func(w write) write { w.expires = now; return w }
	by := func(seq, guard uint64) entry { return entry{seq: seq, guarded: true, guard: guard, stored: now} }
	free := func(seq uint64, after time.Duration) entry { return entry{seq: seq, stored: now.Add(after)} }
	nothing := entry{}
	soon, late := time.Second, time.Minute
	for i, c := range []struct {
		w       write
		e       entry
		elapsed time.Duration
		want    verdict
	}{
		{guarded, entry{seq: 12, nonce: "ours"}, late, isStored},
		{guarded, free(7, -time.Hour), late, isOpen},
		{guarded, by(8, 7), late, isLost},
		{guarded, free(8, -2*time.Second), late, isLost},
		{known, by(9, 8), late, isLost},
		{known, by(10, 9), late, isUnknown},
		{guarded, by(9, 8), soon, isUnknown},
		{guarded, free(8, 0), soon, isUnknown},
		{guarded, nothing, soon, isLost},
		{guarded, nothing, late, isUnknown},
		{mortal(guarded), nothing, soon, isUnknown},
		{guarded, by(9, 0), soon, isUnknown},
		{created, nothing, soon, isOpen},
		{created, nothing, late, isUnknown},
		{mortal(created), nothing, soon, isUnknown},
		{created, by(8, 0), soon, isLost},
		{created, by(8, 0), late, isUnknown},
		{created, by(9, 8), soon, isUnknown},
		{created, free(8, 0), soon, isUnknown},
		{plain, entry{seq: 12, nonce: "ours"}, late, isStored},
		{plain, free(9, 0), late, isOpen},
		{plain, free(12, -2*time.Second), late, isOpen},
		{plain, free(12, 2*time.Second), late, isStored},
		{plain, free(12, 0), soon, isUnknown},
		{plain, by(12, 9), late, isOpen},
		{plain, by(12, 11), late, isUnknown},
		{plain, by(12, 0), soon, isOpen},
		{plain, by(12, 0), late, isUnknown},
		{plain, nothing, soon, isOpen},
		{plain, nothing, late, isUnknown},
		{mortal(plain), nothing, late, isStored},
		{marker, nothing, late, isStored},
		{marker, entry{seq: 12, marker: true, stored: now}, late, isStored},
		{marker, free(9, 0), late, isOpen},
	} {
		require.Equal(t, c.want, b.judge(&c.w, &c.e, c.elapsed), "case %d", i)
	}
}

func TestASecondTryIsGuarded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := server(t)
	b, other := open(t, url, config()), open(t, url, config())
	set(t, b, "k", "1", 0)
	w := newWrite(b.subject("k")) // of which nobody knows what became
	w.plain, w.value = true, []byte("2")
	w.start(time.Now(), b.last.Load())
	w.doubt = true
	_, stored, err := b.resolve(ctx, w)
	require.NoError(t, err)
	require.False(t, stored)
	set(t, other, "k", "3", 0)
	_, err = b.publish(ctx, w, b.timeout)
	require.ErrorIs(t, err, errGuard)
	has(t, b, "k", "3")
}

func TestACallerWhoseContextEndsIsToldWhatIsKnown(t *testing.T) {
	t.Parallel()
	d := &natstest.FaultDialer{}
	url := server(t)
	b, other := open(t, url, config(), d.Option()), open(t, url, config())
	for name, do := range map[string]func(context.Context) error{
		"set":       func(ctx context.Context) error { return b.Set(ctx, "set", "v", 0) },
		"delete":    func(ctx context.Context) error { return b.Delete(ctx, "delete") },
		"swap":      func(ctx context.Context) error { _, err := b.Swap(ctx, "swap", nil, "v", 0); return err },
		"increment": func(ctx context.Context) error { _, err := b.Increment(ctx, "increment", 1); return err },
	} {
		before, _ := d.Dropped()
		d.DropFromServer(-1, natstest.IsPubAck)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			defer cancel()
			for after := before; after == before && t.Context().Err() == nil; after, _ = d.Dropped() {
				time.Sleep(time.Millisecond)
			}
		})
		err := do(ctx)
		all.Wait()
		require.ErrorIs(t, err, kv.ErrUnknown, name)
		require.ErrorIs(t, err, context.Canceled, name)
		require.ErrorContains(t, err, "kvbucket: "+name)
		d.Heal()

		// Without a connection nothing is sent: that is known.
		lost := b.nc.StatusChanged(nats.RECONNECTING)
		d.Refuse()
		d.Cut()
		<-lost
		b.nc.RemoveStatusListener(lost)
		ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
		err = do(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.NotErrorIs(t, err, kv.ErrUnknown, name)
		d.Heal()
		natstest.Eventually(t, soon, b.nc.IsConnected)
	}
	has(t, other, "set", "v")
	has(t, other, "swap", "v")
	has(t, other, "increment", "1")
}

func TestAfterCloseNothingIsTaken(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	b.Close()
	b.Close()
	_, err := b.Increment(t.Context(), "k", 1)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, b.Set(t.Context(), "k", "v", 0), ErrClosed)
	_, err = b.Wipe(t.Context(), "")
	require.ErrorIs(t, err, ErrClosed)
}

func TestAFullBucketIsAClearError(t *testing.T) {
	t.Parallel()
	url := server(t)
	makeByHand(t, url, byHand["a limit of keys"].change)
	b := open(t, url, config())
	fill(t, b, 1000, func(i int) string {
		return string(rune('a'+i/100)) + string(rune('a'+i/10%10)) + string(rune('a'+i%10))
	}, "v")
	require.ErrorContains(t, b.Set(t.Context(), "one more", "v", 0), "full")
}

func TestWithoutADeadlineNoOperationWaitsForAConnectionForEver(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	d := &natstest.FaultDialer{}
	b := open(t, server(t), config(), d.Option())
	lost := b.nc.StatusChanged(nats.RECONNECTING)
	d.Refuse()
	d.Cut()
	<-lost
	var all sync.WaitGroup
	ctx := context.Background()
	for _, do := range []func() error{
		func() error { return b.Set(ctx, "k", "v", 0) },
		func() error { return b.Delete(ctx, "k") },
		func() error { _, err := b.Swap(ctx, "k", nil, "v", 0); return err },
		func() error { _, err := b.Increment(ctx, "k", 1); return err },
		func() error { _, _, err := b.Get(ctx, "k"); return err },
		func() error { _, err := b.Wipe(ctx, ""); return err },
	} {
		all.Go(func() { assert.ErrorIs(t, do(), context.DeadlineExceeded) })
	}
	all.Wait()
	require.False(t, b.nc.IsConnected())
}

func TestAnIncrementWithoutAnAnswerSaysSo(t *testing.T) {
	t.Parallel()
	d := &natstest.FaultDialer{}
	b := open(t, server(t), config(), d.Option())
	d.DropToServer(-1, func([]byte) bool { return true })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := b.Increment(ctx, "k", 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "the store did not answer")
	d.Heal()
}
