package scheduler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// hands is a clock that a test sets.
type hands struct {
	mu  sync.Mutex
	now time.Time
}

func (h *hands) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hands) set(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = t
}

// bench is a store of schedules and of jobs on a server, with a clock of the test's.
type bench struct {
	t     testing.TB
	url   string
	clock *hands
	jobs  *streams.Store
	store *Store
}

func newBench(t testing.TB, now string) *bench {
	t.Helper()
	return benchAt(t, natstest.Embedded(t).URL(), now)
}

func benchAt(t testing.TB, url, now string) *bench {
	t.Helper()
	nc := natstest.Connect(t, url)
	jobs, err := streams.Open(context.Background(), nc, streams.Config{})
	require.NoError(t, err)
	t.Cleanup(jobs.Close)
	b := &bench{t: t, url: url, clock: &hands{now: instant(t, now)}, jobs: jobs}
	b.store = b.open()
	return b
}

// open is another process's view of the same schedules.
func (b *bench) open() *Store {
	b.t.Helper()
	s, err := OpenStore(context.Background(), natstest.Connect(b.t, b.url), StoreConfig{Clock: b.clock})
	require.NoError(b.t, err)
	return s
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04:05", s)
	require.NoError(t, err)
	return at.UTC()
}

// put has to work.
func (b *bench) put(s Spec) *Schedule {
	b.t.Helper()
	sched, _, err := b.store.Put(context.Background(), "", s)
	require.NoError(b.t, err)
	return sched
}

// get has to find a schedule of the default space.
func (b *bench) get(name string) *Schedule {
	b.t.Helper()
	sched, err := b.store.Get(context.Background(), "default", name)
	require.NoError(b.t, err)
	return sched
}

// job has to find the job of a fire.
func (b *bench) job(name, clock string) *job.Job {
	b.t.Helper()
	j, err := b.jobs.Get(context.Background(), job.Key{Space: "default", ID: fireID(name, at(b.t, clock))})
	require.NoError(b.t, err)
	return j
}

// next waits until a schedule promises an instant.
func (b *bench) next(name, clock string) *Schedule {
	b.t.Helper()
	return b.promises(name, at(b.t, clock))
}

// What failed on a machine with no time to spare is tried again after up to ten seconds, by a clock that would stand: it
// goes on, slowly, while there is something to wait for.
func (b *bench) promises(name string, want time.Time) *Schedule {
	b.t.Helper()
	const slow, most = 3 * time.Second, 20 * time.Second
	began, went := time.Now(), time.Duration(0)
	natstest.Eventually(b.t, time.Minute, func() error {
		if got := b.get(name).NextRunAt; !got.Equal(want) {
			if time.Since(began) > slow && went < most {
				const step = 100 * time.Millisecond
				went += step
				b.clock.set(b.clock.Now().Add(step))
			}
			return fmt.Errorf("%s promises %s, want %s", name, got, want)
		}
		return nil
	})
	return b.get(name)
}

// fire runs a firer until stopped, and answers what it observed.
func (b *bench) fire(jobs Jobs) *observer { return b.fireFrom(b.store, jobs) }

// fireFrom does so as another process.
func (b *bench) fireFrom(s *Store, jobs Jobs, adjust ...func(*Firer)) *observer {
	o := &observer{}
	ctx, stop := context.WithCancel(context.Background())
	f := NewFirer(s, jobs, FirerConfig{Observe: o.see, Logger: zerolog.New(o)})
	for _, a := range adjust {
		a(f)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx, func() { o.signs.Add(1) })
	}()
	o.stop = func() { stop(); <-done }
	b.t.Cleanup(o.stop)
	return o
}

type observer struct {
	mu    sync.Mutex
	fires []Fire
	log   strings.Builder
	signs atomic.Int64
	stop  func()
}

// Write takes the log.
func (o *observer) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.log.Write(line)
}

// logged is how often a text stands in the log.
func (o *observer) logged(text string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Count(o.log.String(), text)
}

func (o *observer) see(f Fire) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fires = append(o.fires, f)
}

func (o *observer) seen() []Fire {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]Fire(nil), o.fires...)
}

func (o *observer) wait(t testing.TB, n int) []Fire {
	t.Helper()
	natstest.Eventually(t, time.Minute, func() error {
		if got := len(o.seen()); got < n {
			return fmt.Errorf("%d fires, want %d", got, n)
		}
		return nil
	})
	return o.seen()
}

func TestAScheduleFires(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	s := b.put(Cron("* * * * *", Spec{Name: "tick", Type: "work"}))
	require.Equal(t, instant(t, "2030-01-01 00:01:00"), s.NextRunAt)
	o := b.fire(b.jobs)
	b.clock.set(instant(t, "2030-01-01 00:01:00"))
	o.wait(t, 1)
	b.clock.set(instant(t, "2030-01-01 00:05:10"))
	fires := o.wait(t, 2)
	require.True(t, fires[0].Created && fires[1].Created)
	require.Equal(t, 3, fires[1].Missed)

	got, err := b.store.Get(context.Background(), "default", "tick")
	require.NoError(t, err)
	require.Equal(t, instant(t, "2030-01-01 00:06:00"), got.NextRunAt)
	require.Equal(t, instant(t, "2030-01-01 00:02:00"), got.LastFireAt)
	require.Equal(t, 3, got.Missed)
	j, err := b.jobs.Get(context.Background(), *got.LastJob)
	require.NoError(t, err)
	require.Equal(t, 3, j.Missed)
	require.Equal(t, job.TriggerSchedule, j.Trigger)
}

func TestManyDueAtOneInstant(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of jobs")
	}
	b := newBench(t, "2030-01-01 23:59:00")
	n := 10000
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := w; i < n; i += 16 {
				_, _, err := b.store.Put(context.Background(), "", Cron("@daily", Spec{Name: fmt.Sprint("s", i), Type: "work"}))
				require.NoError(t, err)
			}
		})
	}
	all.Wait()
	o := b.fire(b.jobs)
	pause(context.Background(), 2*time.Second)
	began := time.Now()
	b.clock.set(instant(t, "2030-01-02 00:00:00"))
	fires := o.wait(t, n)
	t.Logf("%d fires in %s", n, time.Since(began))
	for _, f := range fires {
		require.True(t, f.Created, f)
	}
}
