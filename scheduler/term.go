package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
)

// term is the time during which a process leads.
type term struct {
	e       *Election
	me      Leader
	body    []byte
	rev     uint64    // that this term wrote last
	renewed time.Time // when that write was sent, by the monotonic clock

	mu    sync.Mutex
	signs []time.Time // the last sign of life of each task
}

// serve runs the leader's work for as long as the lead can be renewed.
func (t *term) serve(ctx context.Context, tasks []Task) {
	work, stop := context.WithCancel(ctx)
	defer stop()
	done := t.start(work, stop, tasks)
	tick := time.NewTicker(t.e.ttl / 3)
	defer tick.Stop()
	for held := true; held; {
		select {
		case <-work.Done():
			held = false
		case <-tick.C:
			held = t.renew(ctx)
		}
	}
	clean := work.Err() != nil // by the caller, or since a task ended: the lead is free once the work has ended
	stop()
	if clean {
		<-done
		t.resign()
		return
	}
	// The lead is lost, or the work hangs. It has to end before this process can be elected again.
	select {
	case <-done:
	case <-time.After(t.e.ttl):
		t.e.cfg.Logger.Error().Str("id", t.me.ID).Msg("the leader's work goes on though the lead is lost")
		<-done
	}
}

// start begins the tasks. The first to end ends all; when they have, done is closed.
func (t *term) start(ctx context.Context, stop func(), tasks []Task) (done chan struct{}) {
	t.signs = make([]time.Time, len(tasks))
	var all sync.WaitGroup
	for i, task := range tasks {
		t.alive(i)
		all.Go(func() {
			defer stop()
			task(ctx, func() { t.alive(i) })
		})
	}
	done = make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	return done
}

// alive is a task's sign of life.
func (t *term) alive(task int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.signs[task] = time.Now()
}

func (t *term) hung() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.signs, func(sign time.Time) bool { return time.Since(sign) > t.e.cfg.Hang })
}

// renew answers whether the lead is still held. An error alone does not end it; a TTL without a renewal does.
func (t *term) renew(ctx context.Context) bool {
	log := t.e.cfg.Logger
	if t.hung() {
		log.Error().Str("id", t.me.ID).Dur("hangMs", t.e.cfg.Hang).Msg("the leader's work hangs; giving up the lead")
		t.resign()
		return false
	}
	left := t.e.ttl - time.Since(t.renewed)
	if left <= 0 {
		return false // paused for too long: somebody else may lead
	}
	if failpoint.At(failpoint.AfterTerm) != nil {
		return true // as if the server had not answered: the next time decides
	}
	ctx, cancel := context.WithTimeout(ctx, min(left, t.e.ttl/4))
	defer cancel()
	sent := time.Now()
	rev, err := t.write(ctx)
	if err == nil {
		t.rev, t.renewed = rev, sent
		return true
	}
	if ctx.Err() == nil && errors.Is(err, jetstream.ErrKeyExists) {
		// Another revision stands: one of ours whose answer was lost, or somebody else's.
		l, rev, rerr := t.e.read(ctx)
		switch {
		case errors.Is(rerr, ErrNoLeader) || rerr == nil && l.Term != t.me.Term:
			return false
		case rerr == nil:
			t.rev = rev // renewed under it next time
		}
	}
	return time.Since(t.renewed) < t.e.ttl
}

// write renews the entry, which has to be the one that this term wrote last.
func (t *term) write(ctx context.Context) (uint64, error) {
	if failpoint.Broken(failpoint.RenewsWhatItFinds) {
		return t.e.kv.Put(ctx, leaderKey, t.body)
	}
	return t.e.kv.Update(ctx, leaderKey, t.body, t.rev)
}

// resign frees the lead, if it is still this term's.
func (t *term) resign() {
	ctx, cancel := context.WithTimeout(context.Background(), t.e.ttl/3)
	defer cancel()
	if err := t.e.kv.Delete(ctx, leaderKey, jetstream.LastRevision(t.rev)); err != nil {
		t.e.cfg.Logger.Debug().Err(err).Msg("the lead was not given back; it is free when its entry expires")
	}
}
