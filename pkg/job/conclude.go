package job

import "time"

// Run is who made an attempt, and since when.
type Run struct {
	Attempts  int // used, this one included
	WorkerID  string
	StartedAt time.Time
}

// Conclude writes into a claimed job's record what its attempt came to at the instant now. It is the rule that
// every queue follows:
//
// An outcome to Pending ends cancelled if that was asked for, and dead if it would try again without an attempt
// left; a refund gives the attempt back and leaves the history alone, and anything else adds to it. RunAt is
// then the instant of the next try. The error is overwritten, the run's name only if a new one is given, and a
// job that has ended keeps its worker's name.
func (j *Job) Conclude(o Outcome, r Run, now time.Time) {
	now = Millis(now)
	o.Refund = o.Refund && o.Status == Pending
	j.Status = o.Status
	switch {
	case o.Status == Pending && j.CancelRequested:
		j.Status = Cancelled
	case o.Status == Pending && !o.Refund && r.Attempts >= j.MaxAttempts:
		j.Status = Dead
	}
	j.Attempts = r.Attempts
	j.WorkerID = r.WorkerID
	j.Error = CutError(o.Error)
	if o.RunID != "" {
		j.RunID = o.RunID
	}
	j.Result = nil
	if j.Status == Succeeded {
		j.Result = o.Result
	}
	if !o.Refund {
		a := Attempt{
			Status: o.AttemptStatus(), StartedAt: r.StartedAt, EndedAt: now,
			WorkerID: r.WorkerID, RunID: j.RunID, Error: o.Error,
		}
		if j.Status == Cancelled {
			a.Status = AttemptCancelled
		}
		j.AddAttempt(a)
	}
	if o.Refund {
		j.Attempts--
	}
	if j.Status == Pending {
		j.WorkerID = ""
		j.RunAt = CeilMillis(now.Add(max(o.Delay, 0)))
	}
	j.StartedAt, j.LeaseUntil = time.Time{}, time.Time{}
	j.UpdatedAt = now
}

// LoseAttempt writes into the history that the attempt under way was lost: whoever made it stopped reporting.
func (j *Job) LoseAttempt(now time.Time) {
	a := Attempt{
		Status: AttemptLost, StartedAt: j.StartedAt, EndedAt: Millis(now),
		WorkerID: j.WorkerID, RunID: j.RunID, Error: LostError,
	}
	if a.WorkerID == "" {
		a.WorkerID = UnknownWorker
	}
	if a.StartedAt.IsZero() {
		a.StartedAt = a.EndedAt
	}
	j.AddAttempt(a)
}
