package streams

import (
	"time"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// keep is how long the record of a job that ends in a state stays: what its queue says, or else what this process is
// configured with; 0 where it leaves none. A fire or a webhook's delivery that comes a second time has to find the
// first one, so theirs stay for a while in any case.
func (s *Store) keep(j *job.Job, end state) time.Duration {
	d, ok := s.settings(j.Queue).retention[job.Status(end)]
	if !ok {
		d = s.cfg.Retention.of(end)
	}
	if j.Trigger == job.TriggerSchedule || j.Trigger == job.TriggerWebhook {
		d = max(d, MinRetention)
	}
	return d
}

// ttl is how long an end's document is to stay. A brief one is deleted as soon as all that is older is gone: it
// leaves no record, but until then it keeps the job from being run again.
func (s *Store) ttl(j *job.Job, end state) (ttl time.Duration, brief bool) {
	if d := s.keep(j, end); d > 0 {
		return d, false
	}
	if failpoint.Broken(failpoint.EndsWithoutFloor) {
		return time.Second, true
	}
	return MinRetention, true
}

// lastingTTL is ttl for an end that a crash led to: it stays for the least time at any rate, since other messages of
// the job may be brought back.
func (s *Store) lastingTTL(j *job.Job, end state) time.Duration {
	d, _ := s.ttl(j, end)
	return d
}

// leavesNothing reports whether a queue's jobs may come and go without a record, so that their ids are protected by
// message ids alone.
func (s *Store) leavesNothing(j *job.Job) bool { return s.keep(j, stateSucceeded) == 0 }
