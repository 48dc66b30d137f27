package streams

import (
	"context"
	"errors"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// What a handler says of itself is told live on <namespace>.event.progress.<job> and <namespace>.event.log.<job>, and
// kept on the record with the next write that the job needs anyway, or the next heartbeat.
const (
	eventProgress state = "progress"
	eventLog      state = "log"

	// liveEvery is how often progress is told live at most; the last word stands on the record.
	liveEvery = 100 * time.Millisecond
	// liveLines is how many lines of log are told live in that time at most.
	liveLines = 20
)

// reports is what a claim's handler has said. Guarded by the claim's mu.
type reports struct {
	job.Job           // only its Progress and Log
	unsaved bool      // something was said since the claim was last written
	marked  time.Time // when progress was last told live
	window  time.Time // since when lines are counted
	lines   int       // told live since then
}

// keep puts what was said onto the record.
func (r *reports) keep(j *job.Job) {
	j.Progress, j.Log = r.Progress, r.Log
}

// ReportProgress says how far the job has come. See job.Reporter.
func (cl *claim) ReportProgress(done float64, note string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.over != nil || cl.settling {
		return
	}
	r := &cl.said
	r.SetProgress(done, note, cl.c.s.Now())
	r.unsaved = true
	if now := time.Now(); now.Sub(r.marked) >= liveEvery {
		r.marked = now
		cl.live(eventProgress, r.Progress)
	}
}

// ReportLog adds to the job's log. See job.Reporter.
func (cl *claim) ReportLog(text string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.over != nil || cl.settling {
		return
	}
	r := &cl.said
	fresh := r.AddLog(text, cl.c.s.Now())
	if len(fresh) == 0 {
		return
	}
	r.unsaved = true
	now := time.Now()
	if now.Sub(r.window) >= liveEvery {
		r.window, r.lines = now, 0
	}
	if r.lines += len(fresh); r.lines <= liveLines {
		cl.live(eventLog, fresh)
	}
}

// live tells whoever listens. Called with mu held; it only buffers.
func (cl *claim) live(what state, v any) {
	if body, err := job.Encode(v); err == nil {
		_ = cl.c.s.nc.Publish(cl.c.s.names.event(what, cl.rec.tail), body) // a hint: the record is the truth
	}
}

// saveReports writes the claims anew whose handlers have said something since the last round. What cannot be
// written waits for the next one, or the end.
func (c *consumer) saveReports(ctx context.Context, claims []*claim) {
	for _, cl := range claims {
		if err := cl.saveReport(ctx); err != nil && c.ctx.Err() == nil {
			c.log.Debug().Err(err).Stringer("job", cl.rec.job().Key()).Msg("progress not kept yet")
		}
	}
}

func (cl *claim) saveReport(ctx context.Context) error {
	cl.mu.Lock()
	due := cl.said.unsaved && cl.claimed && cl.over == nil && !cl.settling
	cl.mu.Unlock()
	if !due {
		return nil
	}
	if err := cl.lock(ctx); err != nil {
		return err
	}
	defer cl.unlock()
	cl.mu.Lock()
	if !cl.claimed || cl.over != nil || cl.settling {
		cl.mu.Unlock()
		return nil
	}
	d := cl.running(newWriter(), cl.c.s.Now())
	d.Claim = cl.wrote // it stays the same claim
	guard := cl.guard
	cl.said.unsaved = false
	cl.mu.Unlock()
	seq, err := cl.c.s.put(ctx, write{tail: cl.rec.tail, state: stateRunning, doc: &d, guard: guard})
	if err != nil {
		cl.mu.Lock()
		cl.said.unsaved = true
		cl.mu.Unlock()
		if errors.Is(err, errGuard) {
			return nil // the next look finds out who wrote
		}
		return err
	}
	cl.adopt(&d, seq)
	return nil
}
