package kvbucket

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// follower is a watch that goes on beside a test, and what it has told.
type follower struct {
	mu     sync.Mutex
	values map[string]string // of the keys that are there
	kinds  map[string][]kv.EventKind
	err    error
	ended  chan struct{}
	end    context.CancelFunc
}

// follow begins a watch of all keys that lists them again that often, and waits until it has told what is there.
func follow(t *testing.T, b *Bucket, every time.Duration) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{values: make(map[string]string), kinds: make(map[string][]kv.EventKind), ended: make(chan struct{}), end: cancel}
	w := b.newWatch("", func(e kv.Event, _ error) bool { f.take(e); return true })
	w.every = every
	go func() {
		defer close(f.ended)
		f.err = w.run(ctx, kv.WatchOptions{})
	}()
	t.Cleanup(func() {
		cancel()
		<-f.ended
	})
	natstest.Eventually(t, soon, func() bool { return f.last("") == kv.EventWatching }, "it has not begun")
	return f
}

func (f *follower) take(e kv.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kinds[e.Key] = append(f.kinds[e.Key], e.Kind)
	if e.There() {
		f.values[e.Key] = e.Value
	} else {
		delete(f.values, e.Key)
	}
}

// of is what was told of a key.
func (f *follower) of(key string) []kv.EventKind {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.kinds[key])
}

func (f *follower) last(key string) kv.EventKind {
	if kinds := f.of(key); len(kinds) > 0 {
		return kinds[len(kinds)-1]
	}
	return ""
}

// comesTo waits until the watch has told of just these values.
func (f *follower) comesTo(t *testing.T, values map[string]string) {
	t.Helper()
	natstest.Eventually(t, soon, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return maps.Equal(values, f.values)
	}, "it does not come to ", values)
}

func TestAWatchOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	url := server(t)
	cfg := config()
	cfg.MarkerTTL = time.Second
	other := open(t, url, cfg)
	d := &natstest.FaultDialer{}
	b := open(t, url, cfg, d.Option())
	for _, key := range []string{"stays", "changed", "deleted", "wiped/1", "wiped/2", "deleted and set"} {
		set(t, other, key, "1", 0)
	}
	set(t, other, "lapses", "1", 3*time.Second)
	set(t, other, "prolonged", "1", time.Hour)
	f := follow(t, b, time.Hour)
	lost, back := b.nc.StatusChanged(nats.RECONNECTING), b.nc.StatusChanged(nats.CONNECTED)
	d.Refuse()
	d.Cut()
	<-lost
	set(t, other, "changed", "2", 0)
	set(t, other, "new", "1", 0)
	set(t, other, "came and went", "1", 0)
	for _, key := range []string{"deleted", "deleted and set", "came and went"} {
		require.NoError(t, other.Delete(t.Context(), key))
	}
	set(t, other, "deleted and set", "3", 0)
	_, err := other.Wipe(t.Context(), "wiped/")
	require.NoError(t, err)
	_, err = other.Expire(t.Context(), "prolonged", 0)
	require.NoError(t, err)
	natstest.Eventually(t, soon, func() bool { // until no marker is left that would tell of the deletes
		messages, _ := left(t, other)
		return messages == 5
	})
	d.Heal()
	<-back
	f.comesTo(t, map[string]string{"stays": "1", "changed": "2", "new": "1", "deleted and set": "3", "prolonged": "1"})
	require.Equal(t, kv.EventDeleted, f.last("deleted"))
	require.Equal(t, kv.EventDeleted, f.last("wiped/2"))
	require.Equal(t, kv.EventExpired, f.last("lapses"))
	require.Equal(t, kv.EventSet, f.last("prolonged"))
	require.Equal(t, []kv.EventKind{kv.EventThere}, f.of("stays"), "nothing happened to it")
	set(t, other, "after", "1", 0)
	natstest.Eventually(t, soon, func() bool { return f.last("after") == kv.EventSet })
}

func TestAWatchGoesOnWithoutItsConsumer(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	f := follow(t, b, time.Hour)
	for round := range 3 {
		s, err := b.js.Stream(t.Context(), b.stream)
		require.NoError(t, err)
		for name := range s.ConsumerNames(t.Context()).Name() {
			err := s.DeleteConsumer(t.Context(), name)
			if err != nil {
				require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
			}
		}
		set(t, b, "k", strconv.Itoa(round), 0)
		f.comesTo(t, map[string]string{"k": strconv.Itoa(round)})
	}
}

func TestAWatchMissesNothingThatIsLostOnItsWay(t *testing.T) {
	t.Parallel()
	url := server(t)
	d := &natstest.FaultDialer{}
	b := open(t, url, config(), d.Option())
	f := follow(t, b, time.Hour)
	d.DropFromServer(1, func(frame []byte) bool { return bytes.Contains(frame, []byte("$JS.ACK.")) })
	other := open(t, url, config())
	set(t, other, "lost", "1", 0)
	set(t, other, "seen", "1", 0)
	f.comesTo(t, map[string]string{"lost": "1", "seen": "1"})
	from, _ := d.Dropped()
	require.Equal(t, 1, from)
}

func TestAWatchNoticesWhatGoesWithoutAWord(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	set(t, b, "purged", "1", 0)
	set(t, b, "stays", "1", 0)
	f := follow(t, b, 50*time.Millisecond)
	s, err := b.js.Stream(t.Context(), b.stream)
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSubject(b.subject("purged"))))
	f.comesTo(t, map[string]string{"stays": "1"})
	require.Equal(t, kv.EventDeleted, f.last("purged"))
	for i := range 1500 { // lists go on meanwhile, and mistake nothing that is just being written
		set(t, b, "stays", strconv.Itoa(i), 0)
	}
	f.comesTo(t, map[string]string{"stays": "1499"})
	require.NotContains(t, f.of("stays"), kv.EventDeleted)
}

func TestAWatchKnowsABucketThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	url := server(t)
	d := &natstest.FaultDialer{}
	other := open(t, url, config())
	b := open(t, url, config(), d.Option())
	for i := range 5 {
		set(t, other, strconv.Itoa(i), "old", 0)
	}
	f := follow(t, b, time.Hour)
	lost := b.nc.StatusChanged(nats.RECONNECTING)
	d.Refuse()
	d.Cut()
	<-lost
	require.NoError(t, other.js.DeleteStream(t.Context(), other.stream))
	anew := open(t, url, config())
	set(t, anew, "3", "new", 0)
	set(t, anew, "4", "old", 0)
	d.Heal()
	f.comesTo(t, map[string]string{"3": "new", "4": "old"})
	require.Equal(t, kv.EventDeleted, f.last("0"))
}

func TestAWatchEndsWithItsBucket(t *testing.T) {
	t.Parallel()
	url := server(t)
	b := open(t, url, config())
	set(t, b, "k", "v", 0)
	f := follow(t, b, time.Hour)
	b.Close()
	<-f.ended
	require.ErrorIs(t, f.err, ErrClosed)
	natstest.Eventually(t, soon, func() bool {
		other := open(t, url, config())
		_, consumers := left(t, other)
		return consumers == 0
	}, "it leaves no consumer")
	for e, err := range b.Watch(t.Context(), "", kv.WatchOptions{}) {
		require.Zero(t, e)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorContains(t, err, `kvbucket: watch "": `)
	}

	b = open(t, url, config())
	f = follow(t, b, 20*time.Millisecond)
	require.NoError(t, b.js.DeleteStream(t.Context(), b.stream))
	<-f.ended
	require.ErrorIs(t, f.err, jetstream.ErrStreamNotFound)

	b = open(t, url, config())
	f = follow(t, b, time.Hour)
	b.nc.Close()
	<-f.ended
	require.ErrorIs(t, f.err, nats.ErrConnectionClosed)
}

func TestLapsesAreToldByTheStoresClock(t *testing.T) {
	t.Parallel()
	clock := &shifted{}
	cfg := config()
	cfg.Clock = clock
	b := open(t, server(t), cfg)
	set(t, b, "lapsed", "v", time.Hour)
	set(t, b, "later", "v", 3*time.Hour)
	clock.Advance(time.Hour)
	f := follow(t, b, time.Hour)
	f.comesTo(t, map[string]string{"later": "v"})
	require.Empty(t, f.last("lapsed"), "the server still has it")
	clock.Advance(2 * time.Hour)
	natstest.Eventually(t, soon, func() bool { return f.last("later") == kv.EventExpired })
	set(t, b, "later", "again", time.Hour)
	f.comesTo(t, map[string]string{"later": "again"})
}

// What stands in the bucket under a name that is no key is passed over, and a counter's many lifetimes are one.
func TestAWatchRemembersEachKeyOnce(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	_, err := stock(t, b).Put(t.Context(), "x=FF", []byte("foreign"))
	require.NoError(t, err)
	w := b.newWatch("", nil)
	for i := range 100 {
		w.keep("k", &entry{seq: uint64(i + 1), expires: time.Now().Add(time.Duration(100-i) * time.Hour)})
		w.keep("other", &entry{seq: uint64(i + 1), expires: time.Now().Add(50 * time.Hour)})
		require.Len(t, w.ends, 2)
	}
	require.Equal(t, "k", w.ends[0].key)
	w.keep("k", &entry{seq: 101})
	require.Len(t, w.ends, 1)
	require.Len(t, w.known, 2)
	set(t, b, "k", "v", 0)
	follow(t, b, time.Hour).comesTo(t, map[string]string{"k": "v"})
}
