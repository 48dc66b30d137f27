package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// notebook is jobs that are only written down.
type notebook struct {
	mu   sync.Mutex
	jobs map[job.Key]job.Spec
}

func newNotebook() *notebook { return &notebook{jobs: make(map[job.Key]job.Spec)} }

func (n *notebook) EnqueueMany(_ context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]job.Enqueued, len(specs))
	for i, s := range specs {
		_, there := n.jobs[s.Key()]
		if !there {
			n.jobs[s.Key()] = s
		}
		out[i] = job.Enqueued{Key: s.Key(), Created: !there}
	}
	return out, nil
}

func (n *notebook) Get(_ context.Context, key job.Key) (*job.Job, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, there := n.jobs[key]
	if !there {
		return nil, job.ErrNotFound
	}
	return s.Job(), nil
}

func (n *notebook) Cancel(context.Context, job.Key) (job.Changed, error) {
	return job.Changed{}, errors.New("a notebook cancels nothing")
}

// all are the jobs by their ids.
func (n *notebook) all() map[string]job.Spec {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make(map[string]job.Spec)
	for k, s := range n.jobs {
		out[k.ID] = s
	}
	return out
}

// steered are jobs with a test's hands in them. Each hand may be nil.
type steered struct {
	Jobs
	before func()                 // the enqueueing
	silent func(*job.Spec) bool   // no answer comes for any job of the call
	refuse func(*job.Spec) error  // an error instead of a job
	made   func([]job.Enqueued)   // the jobs are there, their schedules not moved on
	find   func(key job.Key) bool // false: no such job
	stop   func(key job.Key)      // a job is to be cancelled
}

func (s *steered) EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	if s.before != nil {
		s.before()
	}
	out := make([]job.Enqueued, len(specs))
	for i := range specs {
		if s.silent != nil && s.silent(&specs[i]) {
			<-ctx.Done()
			for i := range out {
				out[i].Err = job.ErrUnknown
			}
			return out, job.ErrUnknown
		}
	}
	var pass []job.Spec
	var place []int
	for i := range specs {
		if s.refuse != nil {
			if out[i].Err = s.refuse(&specs[i]); out[i].Err != nil {
				continue
			}
		}
		pass, place = append(pass, specs[i]), append(place, i)
	}
	if len(pass) > 0 {
		made, _ := s.Jobs.EnqueueMany(ctx, pass)
		for i, m := range made {
			out[place[i]] = m
		}
	}
	if s.made != nil {
		s.made(out)
	}
	if i := slices.IndexFunc(out, func(e job.Enqueued) bool { return e.Err != nil }); i >= 0 {
		return out, out[i].Err
	}
	return out, nil
}

func (s *steered) Get(ctx context.Context, key job.Key) (*job.Job, error) {
	if s.find != nil && !s.find(key) {
		return nil, job.ErrNotFound
	}
	return s.Jobs.Get(ctx, key)
}

func (s *steered) Cancel(ctx context.Context, key job.Key) (job.Changed, error) {
	if s.stop != nil {
		s.stop(key)
	}
	return s.Jobs.Cancel(ctx, key)
}
