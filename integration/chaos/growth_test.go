package chaos

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
)

// A worker that has run ten thousand jobs, with all ways to end one among them, has no more goroutines than one that
// has run a thousand, and keeps no more in memory. It counts those of its process, so it runs before the tests that run
// at the same time.
func TestTenThousandJobsLeaveNothingBehind(t *testing.T) {
	heavy(t)
	const first, all = 1_000, 10_000
	nc, err := connect(natstest.StartServer(t, natstest.ServerConfig{}).URL())
	require.NoError(t, err)
	defer nc.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	store, err := streams.Open(ctx, nc, streams.Config{})
	require.NoError(t, err)
	defer store.Close()
	w, err := worker.New(store, worker.Config{Queues: map[string]int{job.DefaultQueue: 20}})
	require.NoError(t, err)
	for name, end := range map[string]func(ctx context.Context) error{
		"succeeds": func(context.Context) error { return nil },
		"fails":    func(context.Context) error { return errors.New("no luck") },
		"panics":   func(context.Context) error { panic("at once") },
		"leaves":   func(context.Context) error { runtime.Goexit(); return nil },
		"is slow":  func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, // until its timeout
	} {
		worker.Handle(w, name, func(ctx context.Context, _ *job.Job, _ map[string]any) (any, error) { return nil, end(ctx) })
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()

	run := func(from, to int) {
		specs := make([]job.Spec, 0, to-from)
		for i := from; i < to; i++ {
			s := job.Spec{ID: fmt.Sprint(i), Type: "succeeds", MaxAttempts: 1}
			switch i % 20 {
			case 3:
				s.Type = "fails"
			case 7:
				s.Type = "panics"
			case 11:
				s.Type = "leaves"
			case 15:
				s.Type, s.Timeout = "is slow", 20*time.Millisecond
			case 19:
				s.Type, s.MaxAttempts, s.Retry = "fails", 2, &job.Retry{Base: time.Millisecond, Max: time.Millisecond}
			}
			specs = append(specs, s)
		}
		_, err := store.EnqueueMany(ctx, specs)
		require.NoError(t, err)
		natstest.Eventually(t, 2*patience, func() error {
			counts, err := store.Count(ctx)
			if err != nil {
				return err
			}
			if n := counts.Succeeded + counts.Dead; n != to {
				return fmt.Errorf("%d of %d jobs have ended", n, to)
			}
			return nil
		})
	}
	run(0, first)
	goroutines, objects := still()
	run(first, all)
	natstest.Eventually(t, patience, func() error {
		g, o := still()
		t.Logf("%d goroutines after %d jobs, %d after %d; %d objects and %d", goroutines, first, g, all, objects, o)
		if g > goroutines+20 || o > objects+(all-first)/2 {
			return fmt.Errorf("%d goroutines, were %d; %d objects, were %d\n%s", g, goroutines, o, objects, stacks())
		}
		return nil
	})
	stop()
	require.NoError(t, <-ended)
}

// However many jobs wait, they wait at the server: a worker has what its slots need, a page is a page, and neither grows
// with the backlog. The heap is the process's, as above.
func TestABacklogStaysAtTheServer(t *testing.T) {
	heavy(t)
	const jobs, slots, text = 20_000, 10, 4 << 10 // some 80 MB in all
	const most = 16 << 20
	nc, err := connect(natstest.StartServer(t, natstest.ServerConfig{}).URL())
	require.NoError(t, err)
	defer nc.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	store, err := streams.Open(ctx, nc, streams.Config{})
	require.NoError(t, err)
	defer store.Close()
	in := fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", text))
	for from := 0; from < jobs; from += 1000 {
		specs := make([]job.Spec, 1000)
		for i := range specs {
			specs[i] = job.Spec{ID: fmt.Sprint(from + i), Type: "held", Input: in}
		}
		_, err := store.EnqueueMany(ctx, specs)
		require.NoError(t, err)
	}
	before := heap()

	w, err := worker.New(store, worker.Config{Queues: map[string]int{job.DefaultQueue: slots}, DrainTimeout: time.Second})
	require.NoError(t, err)
	begun := make(chan struct{}, jobs)
	worker.Handle(w, "held", func(ctx context.Context, _ *job.Job, _ map[string]any) (any, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	natstest.Eventually(t, patience, func() error {
		if n := len(begun); n < slots {
			return fmt.Errorf("%d jobs have begun", n)
		}
		return nil
	})
	page, err := store.List(ctx, job.ListRequest{Filter: job.Filter{AllSpaces: true}, Limit: 50})
	require.NoError(t, err)
	require.Len(t, page.Jobs, 50)
	natstest.Eventually(t, patience, func() error {
		counts, err := store.Count(ctx)
		if err == nil && (counts.Total() != jobs || counts.Running < slots || counts.Running > 2*slots) {
			err = fmt.Errorf("%d jobs of %d, held are %d by %d slots", counts.Total(), jobs, counts.Running, slots)
		}
		return err
	})
	after := heap()
	t.Logf("%d KB before, %d KB with a worker", before>>10, after>>10)
	require.Less(t, after, before+most)
	require.Len(t, begun, slots)
	stop()
	require.NoError(t, <-ended)
}

// heap is how many bytes are in use when what is not has been collected.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// still is how many goroutines and objects there are when what is only passing has gone: the least of some looks.
func still() (goroutines, objects int) {
	goroutines, objects = 1<<30, 1<<30
	for range 10 {
		time.Sleep(100 * time.Millisecond) // between looks, and not for something
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		goroutines, objects = min(goroutines, runtime.NumGoroutine()), min(objects, int(m.HeapObjects))
	}
	return goroutines, objects
}

// stacks says which goroutines there are.
func stacks() string {
	b := make([]byte, 1<<20)
	text := string(b[:runtime.Stack(b, true)])
	return strings.Join(strings.SplitN(text, "\n\n", 50), "\n\n")
}
