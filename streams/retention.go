package streams

import (
	"time"

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
