package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// fireTimeout bounds the enqueueing of a group, and suspectTimeout that of a fire that failed before.
	fireTimeout    = 10 * time.Second
	suspectTimeout = 3 * time.Second
	// moveTimeout bounds the moving of a group's schedules, however much time the enqueueing has taken.
	moveTimeout = 10 * time.Second
	// stopGrace is how long what has begun may go on once the lead is given up.
	stopGrace = 500 * time.Millisecond
	// atOnce is how many schedules of a group are read or moved at a time.
	atOnce = 64
	// groupSize is how many fires are made together at most.
	groupSize = 512
	// noteAfter is after how many tries in vain a schedule's record says so.
	noteAfter = 3
)

// firing is one schedule that is due, on its way.
type firing struct {
	key    string
	rec    *record
	failed int // tries in vain before this one
	timing timing
	plan   plan
	skip   bool // by its overlap policy
	result job.Enqueued
	again  bool      // it is to be tried once more
	moved  *record   // what stands now
	at     time.Time // when the job was enqueued
}

// due takes what is due by an instant, in groups that are to be fired side by side: the fires of one queue together, and
// each that failed before by itself, so that none keeps another one waiting. It takes n at most, and so many groups of
// the latter kind; those beyond wait.
func (f *Firer) due(known *board, now time.Time, n, suspects int) [][]*firing {
	var groups [][]*firing
	open := make(map[string]int) // by queue: the group that has room
	for _, it := range known.take(now, n) {
		if it.failed > 0 && suspects == 0 {
			known.free(it, now.Add(time.Second))
			continue
		}
		fi, err := f.prepare(it, now)
		if err != nil { // cannot happen: it was read before
			f.log.Error().Err(err).Msg("a schedule cannot be read, and does not fire")
			known.free(it, time.Time{})
			continue
		}
		if it.failed > 0 {
			suspects--
			groups = append(groups, []*firing{fi})
			continue
		}
		i, ok := open[fi.rec.Queue]
		if !ok || len(groups[i]) == groupSize {
			i = len(groups)
			open[fi.rec.Queue] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], fi)
	}
	return groups
}

func (f *Firer) prepare(it *item, now time.Time) (*firing, error) {
	r, err := decode(it.key, it.body, it.rev)
	if err != nil {
		return nil, err
	}
	t, err := r.timing()
	if err != nil {
		return nil, err
	}
	fi := &firing{key: it.key, rec: r, failed: it.failed, timing: t, plan: r.plan(t, now)}
	if r.NextRunAt.IsZero() && fi.plan.next.IsZero() {
		return nil, fmt.Errorf("%s: %q never fires again", it.key, r.Cron)
	}
	return fi, nil
}

// fire enqueues the jobs of a group, and then moves their schedules on. It knows of no board: it may go on beside others.
func (f *Firer) fire(lead context.Context, group []*firing) {
	timeout := fireTimeout
	if group[0].failed > 0 {
		timeout = suspectTimeout
	}
	ctx, cancel := beyond(lead, timeout)
	f.overlaps(ctx, group)
	f.elsewhere(ctx, group)
	f.enqueue(ctx, group)
	f.written(ctx, group)
	cancel()
	ctx, cancel = beyond(lead, moveTimeout)
	defer cancel()
	each(group, func(fi *firing) {
		switch {
		case !fi.again:
			f.move(ctx, fi)
		case fi.failed+1 == noteAfter:
			f.note(ctx, fi)
		}
	})
}

// beyond is a context for what has begun: it bears the end of the lead for a moment.
func beyond(lead context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(lead), timeout)
	stop := context.AfterFunc(lead, func() { time.AfterFunc(stopGrace, cancel) })
	return ctx, func() { stop(); cancel() }
}

// each calls do for each fire, some at a time, and waits for all.
func each(fires []*firing, do func(*firing)) {
	var all sync.WaitGroup
	tokens := make(chan struct{}, atOnce)
	for _, fi := range fires {
		tokens <- struct{}{}
		all.Go(func() {
			defer func() { <-tokens }()
			do(fi)
		})
	}
	all.Wait()
}

// overlaps looks at the jobs of the last fires, where the schedules' policies ask for it.
func (f *Firer) overlaps(ctx context.Context, fires []*firing) {
	var asking []*firing
	for _, fi := range fires {
		if fi.rec.Overlap == OverlapAllow || fi.rec.LastJob == nil || fi.plan.fire.IsZero() {
			continue
		}
		// The very job of this fire, which somebody made who could not move the schedule on, is no overlap.
		if fi.rec.LastJob.ID != fireID(fi.rec.Name, fi.plan.fire) {
			asking = append(asking, fi)
		}
	}
	each(asking, func(fi *firing) {
		last := *fi.rec.LastJob
		var err error
		if fi.rec.Overlap == OverlapReplace {
			_, err = f.jobs.Cancel(ctx, last)
		} else {
			var j *job.Job
			if j, err = f.jobs.Get(ctx, last); err == nil {
				fi.skip = !j.Status.Terminal()
			}
		}
		if err != nil && !errors.Is(err, job.ErrNotFound) {
			fi.result.Err, fi.again = err, true
		}
	})
}

// enqueue makes the jobs.
func (f *Firer) enqueue(ctx context.Context, fires []*firing) {
	var making []*firing
	var specs []job.Spec
	for _, fi := range fires {
		if fi.again || fi.skip || fi.plan.fire.IsZero() || fi.result.Key.ID != "" {
			continue
		}
		making = append(making, fi)
		specs = append(specs, fi.rec.job(fireID(fi.rec.Name, fi.plan.fire), fi.plan.stands))
	}
	if len(specs) == 0 {
		return
	}
	results, _ := f.jobs.EnqueueMany(ctx, specs) // its error is one of the results'
	at := f.store.clock.Now()
	var met []*firing
	for i, fi := range making {
		fi.result, fi.at = results[i], at
		switch err := results[i].Err; {
		case err == nil && !results[i].Created:
			met = append(met, fi)
		case err != nil && !refused(err):
			fi.again = true
		}
	}
	each(met, func(fi *firing) { f.meet(ctx, fi, fi.result.Key) })
}

// meet looks at the job of a fire that somebody may have made, and reports whether it is there.
func (f *Firer) meet(ctx context.Context, fi *firing, k job.Key) bool {
	j, err := f.jobs.Get(ctx, k)
	switch {
	case err == nil:
		fi.plan = fi.plan.folded(fi.timing, f.store.clock.Now(), j.Missed)
		return true
	case !errors.Is(err, job.ErrNotFound):
		fi.result.Err, fi.again = err, true
	}
	return false
}

// elsewhere looks whether the jobs of fires stand in the queues that their schedules had when they came due.
func (f *Firer) elsewhere(ctx context.Context, fires []*firing) {
	var moved []*firing
	for _, fi := range fires {
		if fi.rec.PromisedQueue != "" && !fi.again && !fi.plan.fire.IsZero() {
			moved = append(moved, fi)
		}
	}
	each(moved, func(fi *firing) {
		if k := fi.promised(fi.rec.PromisedQueue); f.meet(ctx, fi, k) {
			fi.result.Key, fi.skip = k, false
		}
	})
}

// promised names the job of the promised fire, if it stands in a queue.
func (fi *firing) promised(queue string) job.Key {
	return job.Key{Queue: queue, Space: fi.rec.Space, ID: fireID(fi.rec.Name, fi.rec.NextRunAt)}
}

// written looks whether what is about to be written off as missed was made after all, by somebody who could not move the
// schedule on. Only the promised fire can have been.
func (f *Firer) written(ctx context.Context, fires []*firing) {
	var off []*firing
	for _, fi := range fires {
		if fi.plan.fire.IsZero() && !fi.rec.NextRunAt.IsZero() {
			off = append(off, fi)
		}
	}
	each(off, func(fi *firing) {
		for _, queue := range []string{fi.rec.PromisedQueue, fi.rec.Queue} {
			if queue == "" || fi.again {
				continue
			}
			k := fi.promised(queue)
			switch _, err := f.jobs.Get(ctx, k); {
			case err == nil:
				fi.plan.fire, fi.result.Key = fi.rec.NextRunAt, k
				fi.plan.missed--
				return
			case !errors.Is(err, job.ErrNotFound):
				fi.result.Err, fi.again = err, true
			}
		}
	})
}

// refused reports whether a job will never be taken as it is.
func refused(err error) bool {
	var field *job.FieldError
	return errors.As(err, &field) || errors.Is(err, job.ErrTooLarge)
}

// move writes down what was done, unless somebody else has done so, or has changed what is promised.
func (f *Firer) move(ctx context.Context, fi *firing) {
	if err := failpoint.At(failpoint.AfterFire); err != nil {
		fi.result.Err, fi.again = err, true
		return
	}
	first := true
	moved, err := again(ctx, func(ctx context.Context) (*record, error) {
		now := fi.rec
		if !first {
			var err error
			if now, err = f.store.read(ctx, fi.rec.Space, fi.rec.Name); errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnreadable) {
				return nil, nil
			} else if err != nil {
				return nil, err
			}
			if !now.NextRunAt.Equal(fi.rec.NextRunAt) && !fi.unnoted(now) {
				return now, nil
			}
		}
		first = false
		return f.store.write(ctx, fi.onward(now))
	})
	if err != nil {
		fi.result.Err, fi.again = err, true
		return
	}
	fi.moved = moved
}

// unnoted reports whether a record that promises another instant says nothing of this fire: a put has changed the promise,
// nobody else has made it.
func (fi *firing) unnoted(r *record) bool {
	return !fi.plan.fire.IsZero() && r.LastFireAt.Before(fi.plan.fire) && !r.sameTiming(&fi.rec.Spec)
}

// onward is a record after the fire.
func (fi *firing) onward(r *record) *record {
	next := *r
	next.NextRunAt = fi.next(r)
	next.PromisedQueue = ""
	next.Missed += fi.plan.missed
	next.Error = ""
	switch {
	case fi.plan.fire.IsZero():
		return &next
	case fi.skip:
		next.Skipped++
	case fi.result.Err != nil:
		next.Error = job.CutError(fi.result.Err.Error())
	default:
		k := fi.result.Key
		next.LastJob = &k
	}
	next.LastFireAt = fi.plan.fire
	return &next
}

// next is what a record promises after the fire. Where a put has changed the timing since, it is what that one says: another
// instant already, or what comes after this one.
func (fi *firing) next(r *record) time.Time {
	if r.sameTiming(&fi.rec.Spec) {
		return fi.plan.next
	}
	t, err := r.timing()
	if err != nil || !r.NextRunAt.Equal(fi.rec.NextRunAt) {
		return r.NextRunAt
	}
	return t.after(r.NextRunAt, r.NextRunAt)
}

// note has the record of a schedule say why its fire is not made. That it does is no condition for anything.
func (f *Firer) note(ctx context.Context, fi *firing) {
	next := *fi.rec
	next.Error = job.CutError("not enqueued yet: " + fi.result.Err.Error())
	noted, err := f.store.write(ctx, &next)
	if err != nil {
		f.log.Debug().Err(err).Str("space", next.Space).Str("schedule", next.Name).Msg("why a fire is not made was not written down")
		return
	}
	fi.moved = noted
}

// after has the schedule looked at again when it is due next, and tells of the fire.
func (f *Firer) after(known *board, fi *firing) {
	if m := fi.moved; m != nil {
		if body, err := job.Encode(m.Schedule); err == nil {
			known.moved(fi.key, m.rev, body, m.look())
		}
	}
	if fi.again {
		f.unmade(fi)
	} else if !fi.rec.NextRunAt.IsZero() {
		f.tell(fi)
	}
	it := known.items[fi.key]
	if it == nil {
		return
	}
	asKnown := it.rev == fi.rec.rev || fi.moved != nil && it.rev == fi.moved.rev // nobody else has changed it
	switch {
	case fi.again && asKnown:
		it.failed = fi.failed + 1
		it.at = f.store.clock.Now().Add(min(time.Duration(it.failed)*time.Second, 10*time.Second))
	case fi.moved == nil && asKnown: // it is gone, which the watch will tell
		it.at = f.store.clock.Now().Add(time.Second)
	}
	known.free(it, it.at)
}

// unmade tells that fires cannot be made: of the first, for all of an outage.
func (f *Firer) unmade(fi *firing) {
	level, text := zerolog.DebugLevel, "a fire is still not made"
	if f.vain++; f.vain == 1 {
		level, text = zerolog.WarnLevel, "a fire is not made yet; this one and any others are tried again until they are"
	}
	f.log.WithLevel(level).Err(fi.result.Err).Str("space", fi.rec.Space).Str("schedule", fi.rec.Name).Time("at", fi.plan.fire).Msg(text)
}

// made tells that no fire is waiting to be tried again any more.
func (f *Firer) made(known *board) {
	if f.vain > 0 && !known.failing() {
		f.log.Info().Int("failed", f.vain).Msg("fires are made again")
		f.vain = 0
	}
}

func (f *Firer) tell(fi *firing) {
	r := fi.rec
	log := f.log.With().Str("space", r.Space).Str("schedule", r.Name).Time("at", r.NextRunAt).Logger()
	switch {
	case fi.result.Err != nil:
		log.Error().Err(fi.result.Err).Msg("a fire's job was refused")
	case fi.skip:
		log.Info().Stringer("last", fi.rec.LastJob).Msg("a fire was skipped: the last one's job has not ended")
	}
	if fi.plan.missed > 0 {
		log.Warn().Int("missed", fi.plan.missed).Str("policy", string(r.MissedPolicy)).Msg("fires were missed")
	}
	late := time.Duration(0)
	if !fi.at.IsZero() {
		late = fi.at.Sub(fi.plan.fire)
	}
	f.cfg.Observe(Fire{
		Space: r.Space, Name: r.Name, At: fi.plan.fire, Late: late, Job: fi.result.Key,
		Created: fi.result.Created, Skipped: fi.skip, Missed: fi.plan.missed, Err: fi.result.Err,
	})
}
