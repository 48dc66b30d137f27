package schedules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// every is the interval of all schedules.
const every = time.Second

// figures are what became of the promised instants of all schedules.
type figures struct {
	jobs, folded, missed int
	latest               time.Duration // the most that a job was enqueued after its instant
}

// check disables the schedules, and accounts for each instant from the first that was promised to the one that is
// promised now. Nobody works: each job is as it was enqueued.
func (f *fleet) check(promised []*scheduler.Schedule) figures {
	f.t.Helper()
	for _, p := range promised {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, _, err := f.store.SetEnabled(ctx, p.Space, p.Name, false)
		cancel()
		require.NoError(f.t, err)
	}
	var sum figures
	f.until(func() error { // what is on its way comes to its end
		sum = figures{}
		for _, p := range promised {
			if err := f.account(p, &sum); err != nil {
				return fmt.Errorf("%s, %s: %w", p.Name, p.MissedPolicy, err)
			}
		}
		return f.nothingElse(sum.jobs)
	})
	return sum
}

// account says what is wrong with a schedule.
func (f *fleet) account(p *scheduler.Schedule, sum *figures) error {
	now, err := f.get(p)
	if err != nil {
		return err
	}
	if now.Error != "" {
		return fmt.Errorf("it says %q", now.Error)
	}
	covered, gaps, folded := 0, 0, 0
	for at := p.NextRunAt; at.Before(now.NextRunAt); at = at.Add(every) {
		j, err := f.job(p, at)
		switch {
		case err == nil && covered > 0:
			return fmt.Errorf("%s has a job, and is part of an earlier one's", at)
		case err == nil:
			covered = j.Missed
			folded += j.Missed
			sum.jobs++
			sum.latest = max(sum.latest, j.CreatedAt.Sub(at))
			if j.CreatedAt.Before(at) {
				return fmt.Errorf("the job of %s was enqueued before, at %s", at, j.CreatedAt)
			}
		case !errors.Is(err, job.ErrNotFound):
			return err
		case covered > 0:
			covered--
		default:
			gaps++
		}
	}
	sum.folded += folded
	sum.missed += now.Missed
	switch {
	case covered > 0:
		return fmt.Errorf("its last job stands for %d instants that are promised still", covered)
	case p.MissedPolicy == scheduler.MissedSkip:
		// A process that was frozen when it had decided to fire does so though another has written the fire off.
		if folded > 0 || now.Missed < gaps || now.Missed > gaps+f.frozen {
			return fmt.Errorf("%d instants without a job, %d missed, %d folded", gaps, now.Missed, folded)
		}
	case gaps > 0:
		return fmt.Errorf("%d instants were lost", gaps)
	case p.MissedPolicy == scheduler.MissedEach && folded+now.Missed > 0:
		return fmt.Errorf("%d instants were folded, and %d missed", folded, now.Missed)
	case now.Missed != folded:
		return fmt.Errorf("it counts %d as missed, its jobs %d", now.Missed, folded)
	}
	return nil
}

// job reads the job of an instant.
func (f *fleet) job(s *scheduler.Schedule, at time.Time) (*job.Job, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return f.jobs.Get(ctx, job.Key{Queue: s.Queue, Space: s.Space, ID: fmt.Sprintf("%s@%d", s.Name, at.Unix())})
}

// nothingElse: the stream holds as many jobs as are accounted for, each in one document.
func (f *fleet) nothingElse(jobs int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := f.js.Stream(ctx, "JETCREW_JOBS")
	if err != nil {
		return err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter("jetcrew.job.>"))
	if err != nil {
		return err
	}
	for subject, n := range info.State.Subjects {
		if n != 1 || !strings.HasPrefix(subject, "jetcrew.job.ready.") {
			return fmt.Errorf("%d documents on %s", n, subject)
		}
	}
	if len(info.State.Subjects) != jobs {
		return fmt.Errorf("the stream holds %d jobs, %d belong to instants", len(info.State.Subjects), jobs)
	}
	return nil
}
