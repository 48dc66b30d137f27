package jobtest

import (
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// SetAside stores what another queue would have made of a message that could not be read as a job.
func (q *Queue) SetAside(key job.Key, raw []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(&job.Job{
		Queue: key.Queue, Space: key.Space, ID: key.ID, Status: job.Dead, Error: "not a job", Raw: raw, UpdatedAt: job.Millis(q.now()),
	})
}

// Kept is how long the record of a job stays; 0: for good.
func (q *Queue) Kept(key job.Key) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, err := q.find(key)
	if err != nil || e.expires.IsZero() {
		return 0
	}
	return e.expires.Sub(e.job.UpdatedAt).Truncate(time.Second)
}
