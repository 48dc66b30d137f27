package jobtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// minRetention is the shortest that a queue's setting may be, and how long fires and webhooks' deliveries are kept in
// any case: one that comes a second time has to find the first.
const minRetention = 10 * time.Minute

// Retention has the records of jobs that end in a status stay for d by the queue's clock; 0 keeps none. The defaults
// are 24 hours for those that succeeded or were cancelled, and 7 days for the others. It panics on what is no end.
func Retention(end job.Status, d time.Duration) Option {
	if !end.Terminal() || d < 0 {
		panic(fmt.Sprintf("jobtest: a retention of %s for jobs that are %q", d, end))
	}
	return func(q *Queue) { q.retention[end] = d }
}

// keep is how long the record of a job that has ended stays. Called with mu held.
func (q *Queue) keep(j *job.Job) time.Duration {
	d, ok := q.queue(j.Queue).retention[j.Status]
	if !ok {
		d = q.retention[j.Status]
	}
	if j.Trigger == job.TriggerSchedule || j.Trigger == job.TriggerWebhook {
		d = max(d, minRetention)
	}
	return d
}

// checkRetention refuses what a queue cannot be set to.
func checkRetention(set map[job.Status]time.Duration) error {
	for _, s := range slices.Sorted(maps.Keys(set)) {
		field := "retention." + string(s)
		if !s.Terminal() {
			return &job.FieldError{Field: field, Reason: "only records of jobs that have ended have a retention: succeeded, failed, dead, cancelled"}
		}
		if d := set[s]; d != 0 && d != job.KeepDefault && d < minRetention {
			return &job.FieldError{Field: field, Reason: fmt.Sprintf("must be at least %s, or 0 for none, not %s", minRetention, d)}
		}
	}
	return nil
}
