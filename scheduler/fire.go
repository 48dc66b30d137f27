package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// fireTimeout bounds the enqueueing of a batch, and suspectTimeout that of fires that failed before: they must not
	// keep the others waiting.
	fireTimeout    = 15 * time.Second
	suspectTimeout = 3 * time.Second
	// stopGrace is how long what has begun may go on once the lead is given up.
	stopGrace = 500 * time.Millisecond
	// atOnce is how many schedules are read or moved at a time.
	atOnce = 64
)

// firing is one schedule that is due, on its way.
type firing struct {
	it     *item
	rec    *record
	timing timing
	plan   plan
	skip   bool // by its overlap policy
	result job.Enqueued
	again  bool      // it is to be tried once more
	moved  *record   // what stands now
	at     time.Time // when the job was enqueued
}

// fireDue makes the fires that are due, batch by batch.
func (f *Firer) fireDue(ctx context.Context, known *board, alive func()) {
	for ctx.Err() == nil {
		now := f.store.clock.Now()
		var sound, suspect []*firing
		for _, it := range known.take(now, batch) {
			fi, err := f.prepare(it, now)
			switch {
			case err != nil: // cannot happen: it was read before
				f.log.Error().Err(err).Msg("a schedule cannot be read, and does not fire")
			case it.failed > 0:
				suspect = append(suspect, fi)
			default:
				sound = append(sound, fi)
			}
		}
		if len(sound)+len(suspect) == 0 {
			return
		}
		f.fireAll(ctx, known, sound, fireTimeout)
		alive()
		f.fireAll(ctx, known, suspect, suspectTimeout)
		alive()
	}
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
	return &firing{it: it, rec: r, timing: t, plan: r.plan(t, now)}, nil
}

// fireAll enqueues the jobs of fires, and then moves their schedules on.
func (f *Firer) fireAll(ctx context.Context, known *board, fires []*firing, timeout time.Duration) {
	if len(fires) == 0 {
		return
	}
	lead := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(lead), timeout)
	defer cancel()
	defer context.AfterFunc(lead, func() { time.AfterFunc(stopGrace, cancel) })()
	f.overlaps(ctx, fires)
	f.enqueue(ctx, fires)
	f.written(ctx, fires)
	each(fires, func(fi *firing) {
		if !fi.again {
			f.move(ctx, fi)
		}
	})
	for _, fi := range fires {
		f.after(known, fi)
	}
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
		if fi.again || fi.skip || fi.plan.fire.IsZero() {
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
	each(met, func(fi *firing) {
		switch j, err := f.jobs.Get(ctx, fi.result.Key); {
		case err == nil:
			fi.plan = fi.plan.folded(fi.timing, at, j.Missed)
		case !errors.Is(err, job.ErrNotFound):
			fi.result.Err, fi.again = err, true
		}
	})
}

// written looks whether what is about to be written off as missed was made after all, by somebody who could not move the
// schedule on. Only the promised fire can have been.
func (f *Firer) written(ctx context.Context, fires []*firing) {
	var off []*firing
	for _, fi := range fires {
		if fi.plan.fire.IsZero() {
			off = append(off, fi)
		}
	}
	each(off, func(fi *firing) {
		k := job.Key{Queue: fi.rec.Queue, Space: fi.rec.Space, ID: fireID(fi.rec.Name, fi.rec.NextRunAt)}
		switch _, err := f.jobs.Get(ctx, k); {
		case err == nil:
			fi.plan.fire, fi.result.Key = fi.rec.NextRunAt, k
			fi.plan.missed--
		case !errors.Is(err, job.ErrNotFound):
			fi.result.Err, fi.again = err, true
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

// after has the schedule looked at again when it is due next, and tells of the fire.
func (f *Firer) after(known *board, fi *firing) {
	r := fi.rec
	if fi.again {
		if fi.it.failed++; fi.it.failed == 1 {
			f.log.Warn().Err(fi.result.Err).Str("space", r.Space).Str("schedule", r.Name).Time("at", fi.plan.fire).
				Msg("a fire is not made yet; it is tried again until it is")
		}
		known.look(fi.it, f.store.clock.Now().Add(min(time.Duration(fi.it.failed)*time.Second, 10*time.Second)))
		return
	}
	if fi.it.failed > 0 && fi.result.Err == nil {
		f.log.Info().Str("space", r.Space).Str("schedule", r.Name).Int("failed", fi.it.failed).Msg("the fire is made")
	}
	if m := fi.moved; m != nil {
		body, err := job.Encode(m.Schedule)
		if err == nil {
			known.moved(fi.it.key, m.rev, body, m.look())
		}
	}
	f.tell(fi)
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
