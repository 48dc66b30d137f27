package faketime

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

// fires notes the jobs that schedulers made, by their ids.
type fires struct {
	mu   sync.Mutex
	made map[string][]fired
}

type fired struct {
	at     time.Time
	missed int
}

// noting are the jobs of one scheduler, with a note of each that it made.
type noting struct {
	*streams.Store
	fires *fires
}

func (n noting) EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	out, err := n.Store.EnqueueMany(ctx, specs)
	n.fires.mu.Lock()
	defer n.fires.mu.Unlock()
	for i := range out {
		if out[i].Created {
			n.fires.made[out[i].Key.ID] = append(n.fires.made[out[i].Key.ID], fired{time.Now(), specs[i].Missed})
		}
	}
	return out, err
}

// tenure is for how long a scheduler led.
type tenure struct {
	from, to time.Time // to is zero while it does
}

// planner is a scheduler process: it takes part in the election, and fires while it leads.
type planner struct {
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	tenures []tenure
}

// plan starts a scheduler; clock may be nil.
func (w *world) plan(id string, l *link, f *fires, clock job.Clock) *planner {
	w.t.Helper()
	var opts []nats.Option
	if l != nil {
		opts = append(opts, nats.InProcessServer(l))
	}
	nc := w.connect(opts...)
	jobs := w.open(nc)
	if clock == nil {
		clock = jobs
	}
	store, err := scheduler.OpenStore(w.t.Context(), nc, scheduler.StoreConfig{Clock: clock})
	require.NoError(w.t, err)
	w.leaderBucket(nc)
	e, err := scheduler.NewElection(w.t.Context(), nc, scheduler.Config{ID: id})
	require.NoError(w.t, err)
	p := &planner{done: make(chan struct{})}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	go func() {
		defer close(p.done)
		e.Run(ctx, func(ctx context.Context, alive func()) {
			p.begin()
			ended := context.AfterFunc(ctx, p.end) // the lead is lost when its context ends
			defer ended()
			scheduler.NewFirer(store, noting{jobs, f}, scheduler.FirerConfig{}).Run(ctx, alive)
		})
	}()
	w.t.Cleanup(p.retire)
	return p
}

// leaderBucket makes the election's bucket in memory: a file store judges the age of a stream's entries by a clock of the
// process, which is not the bubble's, and would drop each of them at its next look.
func (w *world) leaderBucket(nc *nats.Conn) {
	w.t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(w.t, err)
	_, err = js.CreateOrUpdateKeyValue(w.t.Context(), jetstream.KeyValueConfig{
		Bucket: "JETCREW_LEADER", History: 1, TTL: scheduler.DefaultTTL, Storage: jetstream.MemoryStorage,
	})
	require.NoError(w.t, err)
}

func (p *planner) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenures = append(p.tenures, tenure{from: time.Now()})
}

func (p *planner) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenures[len(p.tenures)-1].to = time.Now()
}

func (p *planner) led() []tenure {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]tenure(nil), p.tenures...)
}

func (p *planner) leads() bool {
	all := p.led()
	return len(all) > 0 && all[len(all)-1].to.IsZero()
}

func (p *planner) retire() {
	p.stop()
	<-p.done
}

// schedules is a store to put schedules by.
func (w *world) schedules() *scheduler.Store {
	w.t.Helper()
	s, err := scheduler.OpenStore(w.t.Context(), w.nc, scheduler.StoreConfig{Clock: w.store})
	require.NoError(w.t, err)
	return s
}

func (w *world) put(s *scheduler.Store, spec scheduler.Spec) {
	w.t.Helper()
	spec.Type = "t"
	_, _, err := s.Put(w.t.Context(), "", spec)
	require.NoError(w.t, err)
}
