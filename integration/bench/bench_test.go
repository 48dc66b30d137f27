package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// body is about 200 bytes of JSON, as a job's document is beside what jetcrew adds.
var body = []byte(`{"to":"somebody@example.com","subject":"hello","template":"welcome","vars":{"name":"Somebody","plan":"pro","trial":true},"padding":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`)

// TestBench prints ratios; it asserts none. Run with JETCREW_BENCH=1 (or make bench).
func TestBench(t *testing.T) {
	rounds, jobs := 1, 500
	if os.Getenv("JETCREW_BENCH") != "" {
		rounds, jobs = 5, 20_000
	} else if testing.Short() {
		t.Skip("the shortest run still takes seconds")
	}
	if n, err := strconv.Atoi(os.Getenv("JETCREW_BENCH_ROUNDS")); err == nil {
		rounds = n
	}
	cases := []Case{
		enqueueCase(t, jobs),
		drainCase(t, jobs, 10),
		drainCase(t, jobs, 100),
		pickupCase(t, min(jobs/5, 1000), 0.5),
		pickupCase(t, min(jobs/5, 1000), 0.99),
		delayedCase(t, jobs/2),
	}
	only := os.Getenv("JETCREW_BENCH_CASE")
	for _, c := range cases {
		if only != "" && only != c.Name {
			continue
		}
		r, err := Run(c, rounds)
		require.NoError(t, err)
		r.Print(os.Stdout)
	}
}

// env is a fresh server process with an empty store, and connections to it.
type env struct {
	t   *testing.T
	srv *natstest.Process
	nc  *nats.Conn
	js  jetstream.JetStream
	ctx context.Context
	end context.CancelFunc
}

func fresh(t *testing.T) *env {
	e := &env{t: t, srv: natstest.StartServer(t, natstest.ServerConfig{})}
	var err error
	e.nc, err = nats.Connect(e.srv.URL())
	require.NoError(t, err)
	e.js, err = jetstream.New(e.nc, jetstream.WithPublishAsyncMaxPending(4096))
	require.NoError(t, err)
	e.ctx, e.end = context.WithTimeout(context.Background(), 3*time.Minute)
	return e
}

func (e *env) close() {
	e.js.CleanupPublisher()
	e.nc.Close()
	e.srv.Kill()
	e.end()
}

func (e *env) store() *streams.Store {
	s, err := streams.Open(e.ctx, e.nc, streams.Config{})
	require.NoError(e.t, err)
	return s
}

func specs(n int, adjust ...func(*job.Spec)) []job.Spec {
	out := make([]job.Spec, n)
	for i := range out {
		out[i] = job.Spec{ID: "job-" + strconv.Itoa(i), Type: "noop", Input: body}
		for _, f := range adjust {
			f(&out[i])
		}
	}
	return out
}

// rawStream makes a stream like jetcrew's, with a consumer on it.
func (e *env) rawStream() jetstream.Consumer {
	_, err := e.js.CreateStream(e.ctx, jetstream.StreamConfig{
		Name: "RAW", Subjects: []string{"raw.>"}, Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1,
		Storage: jetstream.FileStorage, AllowDirect: true, AllowRollup: true, AllowMsgTTL: true,
		AllowMsgSchedules: true, AllowAtomicPublish: true,
	})
	require.NoError(e.t, err)
	c, err := e.js.CreateConsumer(e.ctx, "RAW", jetstream.ConsumerConfig{
		Durable: "ready", FilterSubject: "raw.ready.>", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1, MaxWaiting: 8192,
	})
	require.NoError(e.t, err)
	return c
}

func guarded(subject, filter string, seq uint64) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: body, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader:     []string{strconv.FormatUint(seq, 10)},
		jetstream.ExpectedLastSubjSeqSubjHeader: []string{filter},
	}}
}

func (e *env) rawPublish(n int, m func(i int) *nats.Msg) {
	for i := range n {
		_, err := e.js.PublishMsgAsync(m(i), jetstream.WithStallWait(10*time.Second))
		require.NoError(e.t, err)
	}
	<-e.js.PublishAsyncComplete()
}

func rawReady(i int) *nats.Msg {
	id := strconv.Itoa(i)
	return guarded("raw.ready."+id, "raw.*."+id, 0)
}

func enqueueCase(t *testing.T, n int) Case {
	return Case{
		Name: "enqueue", Unit: "/s", Note: "async publishes with the same headers",
		Raw: func() (float64, error) {
			e := fresh(t)
			defer e.close()
			e.rawStream()
			start := time.Now()
			e.rawPublish(n, rawReady)
			return rate(n, start), nil
		},
		Ours: func() (float64, error) {
			e := fresh(t)
			defer e.close()
			s := e.store()
			defer s.Close()
			start := time.Now()
			_, err := s.EnqueueMany(e.ctx, specs(n))
			return rate(n, start), err
		},
	}
}

func drainCase(t *testing.T, n, slots int) Case {
	return Case{
		Name: fmt.Sprintf("drain-%d", slots), Unit: "/s", Note: "consume, publish one guarded record, ack",
		Raw: func() (float64, error) {
			e := fresh(t)
			defer e.close()
			c := e.rawStream()
			e.rawPublish(n, rawReady)
			var start time.Time
			err := e.rawDrain(c, n, slots, &start)
			return rate(n, start), err
		},
		Ours: func() (float64, error) {
			e := fresh(t)
			defer e.close()
			s := e.store()
			defer s.Close()
			if _, err := s.EnqueueMany(e.ctx, specs(n)); err != nil {
				return 0, err
			}
			var left atomic.Int64
			left.Store(int64(n))
			done := make(chan struct{})
			start := time.Now()
			stop := e.work(s, slots, func() {
				if left.Add(-1) == 0 {
					close(done)
				}
			})
			defer stop()
			<-done
			// The last settlements are on their way: the record is complete when the queue is empty.
			for {
				info, err := e.js.Consumer(e.ctx, "JETCREW_JOBS", "ready-default")
				if err != nil {
					return 0, err
				}
				if ci := info.CachedInfo(); ci.NumAckPending == 0 && ci.NumPending == 0 {
					return rate(n, start), nil
				}
			}
		},
	}
}

// rawDrain consumes, publishes one guarded record and acks, with a number of goroutines.
func (e *env) rawDrain(c jetstream.Consumer, n, slots int, start *time.Time) error {
	it, err := c.Messages(jetstream.PullMaxMessages(2 * slots))
	if err != nil {
		return err
	}
	defer it.Stop()
	*start = time.Now()
	msgs := make(chan jetstream.Msg)
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range slots {
		wg.Go(func() {
			for m := range msgs {
				id := m.Subject()[len("raw.ready."):]
				meta, _ := m.Metadata()
				f, err := e.js.PublishMsgAsync(guarded("raw.done."+id, "raw.*."+id, meta.Sequence.Stream), jetstream.WithStallWait(10*time.Second))
				if err != nil {
					failed.Add(1)
					continue
				}
				select {
				case <-f.Ok():
					_ = m.Ack()
				case <-f.Err():
					failed.Add(1)
				}
			}
		})
	}
	for range n {
		m, err := it.Next()
		if err != nil {
			return err
		}
		msgs <- m
	}
	close(msgs)
	wg.Wait()
	if failed.Load() > 0 {
		return fmt.Errorf("%d writes failed", failed.Load())
	}
	return nil
}

// work runs a worker whose handler does nothing but call each.
func (e *env) work(s *streams.Store, slots int, each func()) (stop func()) {
	w, err := worker.New(s, worker.Config{Queues: map[string]int{"default": slots}})
	require.NoError(e.t, err)
	worker.Handle(w, "noop", func(context.Context, *job.Job, struct{}) (any, error) {
		each()
		return nil, nil
	})
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(e.t, <-done)
	}
}

func pickupCase(t *testing.T, n int, q float64) Case {
	return Case{
		Name: fmt.Sprintf("pickup-p%g", q*100), Unit: "ms", Note: "publish to an idle consumer, one by one",
		Raw: func() (float64, error) {
			e := fresh(t)
			defer e.close()
			c := e.rawStream()
			it, err := c.Messages()
			if err != nil {
				return 0, err
			}
			defer it.Stop()
			var lat []float64
			for i := range n {
				from := time.Now()
				if _, err := e.js.PublishMsg(e.ctx, rawReady(i)); err != nil {
					return 0, err
				}
				m, err := it.Next()
				if err != nil {
					return 0, err
				}
				lat = append(lat, time.Since(from).Seconds()*1000)
				_ = m.Ack()
			}
			return Quantile(lat, q), nil
		},
		Ours: func() (float64, error) {
			e := fresh(t)
			defer e.close()
			s := e.store()
			defer s.Close()
			got := make(chan time.Time, 1)
			stop := e.work(s, 4, func() { got <- time.Now() })
			defer stop()
			var lat []float64
			for _, spec := range specs(n) {
				from := time.Now()
				if _, err := s.Enqueue(e.ctx, spec); err != nil {
					return 0, err
				}
				lat = append(lat, (<-got).Sub(from).Seconds()*1000)
			}
			return Quantile(lat, q), nil
		},
	}
}

// delayedCase has many jobs fall due at one instant, and measures how many are run a second from then on.
func delayedCase(t *testing.T, n int) Case {
	wait := 2*time.Second + time.Duration(n/5)*time.Millisecond
	return Case{
		Name: "delayed", Unit: "/s", Note: "server schedules that carry the message, consume, one guarded record, ack",
		Raw: func() (float64, error) {
			e := fresh(t)
			defer e.close()
			c := e.rawStream()
			at := time.Now().Add(wait)
			e.rawPublish(n, func(i int) *nats.Msg {
				id := strconv.Itoa(i)
				return &nats.Msg{Subject: "raw.alarm." + id, Data: body, Header: nats.Header{
					"Nats-Schedule": []string{"@at " + at.UTC().Format(time.RFC3339Nano)}, "Nats-Schedule-Target": []string{"raw.ready." + id},
				}}
			})
			if time.Now().After(at) {
				return 0, fmt.Errorf("publishing %d schedules took longer than %s", n, wait)
			}
			var ignored time.Time
			err := e.rawDrain(c, n, 100, &ignored)
			return rate(n, at), err
		},
		Ours: func() (float64, error) {
			e := fresh(t)
			defer e.close()
			s := e.store()
			defer s.Close()
			at := s.Now().Add(wait)
			if _, err := s.EnqueueMany(e.ctx, specs(n, func(sp *job.Spec) { sp.DueAt = at })); err != nil {
				return 0, err
			}
			if s.Now().After(at) {
				return 0, fmt.Errorf("enqueueing %d jobs took longer than %s", n, wait)
			}
			var left atomic.Int64
			left.Store(int64(n))
			done := make(chan struct{})
			stop := e.work(s, 100, func() {
				if left.Add(-1) == 0 {
					close(done)
				}
			})
			defer stop()
			<-done
			return float64(n) / s.Now().Sub(at).Seconds(), nil
		},
	}
}
