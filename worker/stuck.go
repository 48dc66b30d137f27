package worker

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// Labels of the goroutines of handlers, also for profiles.
const (
	labelJob  = "jetcrew.job"
	labelType = "jetcrew.type"
)

// await waits for the handler of a to return. It answers what the slot is to do then: settle the attempt or
// not, and go on or not (the worker has ended).
//
// A handler that goes on past the grace although its context is cancelled is stuck: its claim is let go, so
// that another worker may take the job over, and its slot stays taken until it does return.
func (r *run) await(a *attempt) (settle, alive bool) {
	select {
	case <-a.done:
		return a.settle, true
	case <-r.w.live.Done():
		return false, false
	case <-a.ctx.Done():
	}
	grace := time.NewTimer(r.cfg.Grace)
	defer grace.Stop()
	select {
	case <-a.done:
		return a.settle, true
	case <-r.w.live.Done():
		return false, false
	case <-grace.C:
	}
	select {
	case <-a.done:
		return a.settle, true
	default:
	}
	r.reportStuck(a)
	select {
	case <-a.done:
		r.w.tally.add(0, 0, -1, 0)
		a.event(zerolog.WarnLevel).
			Msg("stuck handler returned after all; its outcome is not kept")
		return false, true
	case <-r.w.live.Done():
		return false, false
	}
}

func (r *run) reportStuck(a *attempt) {
	a.claim.Abandon()
	a.event(zerolog.ErrorLevel).
		AnErr("cause", context.Cause(a.ctx)).Dur("graceMs", r.cfg.Grace).Str("goroutines", dump(a)).
		Msg("handler ignores its context: stuck; its job is given up to other workers")
	n := r.w.tally.add(0, 0, +1, 0)
	if n > r.cfg.MaxStuck || n == r.slots {
		r.fail(fmt.Errorf("%w: %d of %d slots", ErrStuck, n, r.slots))
	}
}

// dump is where the goroutines of a handler are, its own and those that it started.
func dump(a *attempt) string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return err.Error()
	}
	label := fmt.Sprintf("%q:%q", labelJob, a.key.String())
	var mine []string
	for block := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(block, label) {
			mine = append(mine, block)
		}
	}
	text := strings.Join(mine, "\n\n")
	return text[:min(len(text), 8<<10)]
}
