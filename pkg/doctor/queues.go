package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// lookAtQueues looks whether what is ready is worked off.
func (e *exam) lookAtQueues(ctx context.Context) error {
	if e.store == nil {
		return errUnknown
	}
	queues, err := e.store.Queues(ctx)
	if err != nil {
		return err
	}
	e.queues = queues
	now := e.now()
	ready, running, workers := 0, 0, 0
	for _, q := range queues {
		ready, running, workers = ready+q.Ready, running+q.Running, workers+q.Workers
		if q.Ready == 0 {
			continue
		}
		age := time.Duration(0)
		if !q.OldestReady.IsZero() {
			age = max(0, now.Sub(q.OldestReady))
		}
		facts := map[string]any{
			"queue": q.Name, "ready": q.Ready, "running": q.Running, "workers": q.Workers, "slots": q.Slots,
			"paused": q.Paused, "concurrency": q.Concurrency, "oldestReadyMs": age.Milliseconds(),
		}
		waits := fmt.Sprintf("%s ready, the oldest for %s", plural(q.Ready, "job"), span(age))
		switch {
		case q.Paused:
			until := "until somebody resumes it"
			if !q.PausedUntil.IsZero() {
				until = "until " + q.PausedUntil.Format(time.RFC3339)
			}
			e.warn(fmt.Sprintf("queue %s is paused %s, with %s", q.Name, until, waits), "jetcrew queue resume "+word(q.Name), facts)
		case q.Workers == 0:
			e.warn(fmt.Sprintf("queue %s has no workers, and %s", q.Name, waits),
				fmt.Sprintf("start one (jetcrew work --queues %s), or see in the workers' logs why they left; jetcrew queue list", word(q.Name)), facts)
		case age > e.cfg.ages().old:
			advice := "all slots are busy: start more workers, or give them more slots"
			if q.Concurrency > 0 && q.Running >= q.Concurrency {
				advice = fmt.Sprintf("the queue is at its limit of %d jobs at a time: jetcrew queue configure %s --concurrency N", q.Concurrency, word(q.Name))
			}
			e.warn(fmt.Sprintf("queue %s has %s", q.Name, waits), advice, facts)
		}
	}
	if !e.found() {
		e.ok(fmt.Sprintf("%s, %s ready, %d running: whatever is ready has workers", plural(len(queues), "queue"), plural(ready, "job"), running),
			map[string]any{"queues": len(queues), "ready": ready, "running": running, "workers": workers})
	}
	return nil
}

// How many jobs have to be handed out again, and which part of all that are held (one in storm), before it is told of.
const (
	stormLeast = 20
	storm      = 2
)

// lookForStuck looks for queues whose jobs are not handed out although somebody asks for them, or again and again.
func (e *exam) lookForStuck(ctx context.Context) error {
	if e.consumers == nil || e.store == nil {
		return errUnknown
	}
	byName := make(map[string]*jetstream.ConsumerInfo)
	for _, info := range e.consumers {
		byName[info.Name] = info
	}
	for _, q := range e.queues {
		info := byName[readyPrefix+streams.QueueToken(q.Name)]
		if info == nil {
			continue // it was told of
		}
		if err := e.lookAtFlow(ctx, q, info); err != nil {
			return err
		}
	}
	if !e.found() {
		e.ok("no queue is stuck", nil)
	}
	return nil
}

// lookAtFlow looks at one queue.
func (e *exam) lookAtFlow(ctx context.Context, q job.QueueInfo, info *jetstream.ConsumerInfo) error {
	now, after := e.now(), e.cfg.ages()
	limit := info.Config.MaxAckPending
	facts := map[string]any{
		"queue": q.Name, "consumer": info.Name, "pending": info.NumPending, "ackPending": info.NumAckPending,
		"redelivered": info.NumRedelivered, "waiting": info.NumWaiting, "maxAckPending": limit,
	}
	idle := time.Duration(0) // since something was handed out last
	if last := info.Delivered.Last; last != nil {
		idle = now.Sub(*last)
		facts["idleMs"] = idle.Milliseconds()
	} else {
		idle = now.Sub(info.Created)
	}
	if n := info.NumRedelivered; n >= stormLeast && n*storm >= info.NumAckPending {
		e.warn(fmt.Sprintf("queue %s: of %d jobs that are held, %d were handed out before", q.Name, info.NumAckPending, n),
			"see why workers lose them: jobs that kill their worker (jetcrew job list --status dead), or a lease that is too short for their heartbeats (jetcrew queue info "+word(q.Name)+")", facts)
	}
	limited := limit > 0 && info.NumAckPending >= limit
	switch {
	case info.Paused:
		return nil
	case limited && idle > after.held:
		e.warn(fmt.Sprintf("queue %s: all %d jobs that may run at a time are held, and nothing was handed out for %s", q.Name, limit, span(idle)),
			"see what they do (jetcrew worker list --jobs); if no worker has them, they are handed out again after a lease", facts)
		return nil
	case limited || idle <= after.stuck:
		return nil
	}
	m, err := e.next(ctx, e.names.jobs(), info.Config.FilterSubject, info.Delivered.Stream+1, false)
	if err != nil || m == nil || now.Sub(m.at) <= after.stuck {
		return err
	}
	facts["oldestReadyMs"] = now.Sub(m.at).Milliseconds()
	switch {
	case info.NumWaiting > 0:
		e.fail(fmt.Sprintf("queue %s is stuck: workers ask for jobs, one is ready for %s, and nothing was handed out for %s", q.Name, span(now.Sub(m.at)), span(idle)),
			"see that somebody leads (jetcrew schedule): housekeeping hands the jobs out by writing them anew; if it does not, delete the consumer: nats consumer rm "+e.names.jobs()+" "+info.Name, facts)
	case q.Workers > 0 && q.Running < q.Slots:
		e.fail(fmt.Sprintf("queue %s: its workers have free slots and none asks for jobs, though one is ready for %s", q.Name, span(now.Sub(m.at))),
			"restart the workers (jetcrew worker list says which), and see in their logs what they lost", facts)
	}
	return nil
}
