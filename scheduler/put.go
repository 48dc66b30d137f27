package scheduler

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Change says what a put did.
type Change string

// What a put can do.
const (
	Created   Change = "created"
	Updated   Change = "updated"
	Unchanged Change = "unchanged"
	Deleted   Change = "deleted"
)

// Put adds a schedule, or changes the one of its name, which has to have the same owner (ErrOwned). One whose cron, zone and
// environment stay as they were keeps its promised instant, moved by another share of a jitter, and each keeps its counts.
// What one owes whose timing changes is owed no more.
func (s *Store) Put(ctx context.Context, owner string, spec Spec) (*Schedule, Change, error) {
	if err := spec.Normalize(); err != nil {
		return nil, "", fmt.Errorf("schedule %q: %w", spec.Name, err)
	}
	if err := validateOwner(owner); err != nil {
		return nil, "", err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	sched, change, err := s.put(ctx, owner, spec)
	if err != nil {
		return nil, "", fmt.Errorf("schedule %s/%s: %w", spec.Space, spec.Name, err)
	}
	return sched, change, nil
}

func validateOwner(owner string) error {
	if owner == "" {
		return nil
	}
	return job.ValidateName("owner", owner, job.MaxName)
}

func (s *Store) put(ctx context.Context, owner string, spec Spec) (*Schedule, Change, error) {
	var change Change
	sched, err := again(ctx, func(ctx context.Context) (*Schedule, error) {
		var old *Schedule
		r, err := s.read(ctx, spec.Space, spec.Name)
		switch {
		case err == nil:
			old = &r.Schedule
		case errors.Is(err, ErrNotFound):
			r = &record{}
		case errors.Is(err, ErrUnreadable): // a put is how it is mended
		default:
			return nil, err
		}
		next, ch, err := Changed(old, owner, spec, s.clock.Now())
		change = ch
		if err != nil || change == Unchanged {
			return next, err
		}
		r = &record{Schedule: *next, rev: r.rev}
		if err := s.fits(r); err != nil {
			return nil, err
		}
		if r, err = s.write(ctx, r); err != nil {
			return nil, err
		}
		return &r.Schedule, nil
	})
	return sched, change, err
}

func ownedBy(owner string) error {
	if owner == "" {
		return fmt.Errorf("%w: people put it, no program", ErrOwned)
	}
	return fmt.Errorf("%w: %q", ErrOwned, owner)
}

// Changed is what putting a spec makes of a schedule at an instant, and what that does to it; old is nil where there is
// none. Its errors are those of Put.
func Changed(old *Schedule, owner string, spec Spec, now time.Time) (*Schedule, Change, error) {
	if err := spec.Normalize(); err != nil {
		return nil, "", err
	}
	if old == nil {
		next, err := begun(owner, spec, now)
		return next, Created, err
	}
	if old.Owner != owner {
		return nil, "", ownedBy(old.Owner)
	}
	if spec.Enabled == nil {
		enabled := old.Active()
		spec.Enabled = &enabled
	}
	next := *old
	next.Spec = spec
	t, err := spec.timing()
	if err != nil {
		return nil, "", err
	}
	switch {
	case old.NextRunAt.IsZero() || !old.sameCron(&spec):
		next.NextRunAt = t.first(now)
	case t.every == 0: // the same instants, moved by another share of a jitter
		next.NextRunAt = old.NextRunAt.Add(t.shift - old.shift())
	}
	next.PromisedQueue = ""
	if queue := cmp.Or(old.PromisedQueue, old.Queue); queue != spec.Queue && old.sameCron(&spec) && old.NextRunAt.Before(now.Add(clockSkew)) {
		next.PromisedQueue = queue
	}
	if same(old, &next) {
		return old, Unchanged, nil
	}
	return &next, Updated, nil
}

// begun is a new schedule.
func begun(owner string, spec Spec, now time.Time) (*Schedule, error) {
	t, err := spec.timing()
	if err != nil {
		return nil, err
	}
	enabled := spec.Active()
	spec.Enabled = &enabled
	return &Schedule{Spec: spec, Owner: owner, NextRunAt: t.first(now), CreatedAt: job.Millis(now)}, nil
}

// same reports whether two records say the same.
func same(a, b *Schedule) bool {
	x, errx := job.Encode(a)
	y, erry := job.Encode(b)
	return errx == nil && erry == nil && bytes.Equal(x, y)
}

// Report says what a Reconcile did to each schedule, by name.
type Report struct {
	Created   []string `json:"created"`
	Updated   []string `json:"updated"`
	Unchanged []string `json:"unchanged"`
	Deleted   []string `json:"deleted"`
}

// Reconcile makes the schedules that an owner has in a space those that it declares: it puts each, and deletes the
// owner's others. It touches no other space, and nobody else's schedules. All specs are checked before anything is
// written; several processes of an owner may do it at once.
//
// Each spec's space has to be empty or the one named, and the owner has a name: what people put by hand is nobody's to
// reconcile.
func (s *Store) Reconcile(ctx context.Context, space, owner string, specs []Spec) (Report, error) {
	var report Report
	specs, err := s.declared(space, owner, specs)
	if err != nil {
		return report, err
	}
	for _, spec := range specs {
		change, err := s.reconcile(ctx, owner, spec)
		if err != nil {
			return report, fmt.Errorf("schedule %s/%s: %w", space, spec.Name, err)
		}
		report.add(change, spec.Name)
	}
	have, err := s.List(ctx, Filter{Space: space, Owner: &owner})
	if err != nil {
		return report, err
	}
	for _, sched := range have.Schedules {
		if slices.ContainsFunc(specs, func(spec Spec) bool { return spec.Name == sched.Name }) {
			continue
		}
		gone, err := s.drop(ctx, sched.Space, sched.Name, owner)
		if err != nil {
			return report, fmt.Errorf("schedule %s/%s: %w", space, sched.Name, err)
		}
		if gone {
			report.add(Deleted, sched.Name)
		}
	}
	return report, nil
}

// reconcile puts one of many, with a deadline of its own where the caller set none.
func (s *Store) reconcile(ctx context.Context, owner string, spec Spec) (Change, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, change, err := s.put(ctx, owner, spec)
	return change, err
}

func (r *Report) add(c Change, name string) {
	for _, to := range []struct {
		change Change
		names  *[]string
	}{{Created, &r.Created}, {Updated, &r.Updated}, {Unchanged, &r.Unchanged}, {Deleted, &r.Deleted}} {
		if to.change == c {
			*to.names = append(*to.names, name)
		}
	}
}

// declared checks what is to be reconciled, all of it.
func (s *Store) declared(space, owner string, specs []Spec) ([]Spec, error) {
	if err := job.ValidateName("space", space, job.MaxName); err != nil {
		return nil, err
	}
	if err := job.ValidateName("owner", owner, job.MaxName); err != nil {
		return nil, err
	}
	specs = slices.Clone(specs)
	seen := make(map[string]bool)
	var faults []error
	for i := range specs {
		spec := &specs[i]
		if spec.Space == "" {
			spec.Space = space
		}
		err := spec.Normalize()
		switch {
		case err == nil && spec.Space != space:
			err = &job.FieldError{Field: "space", Reason: fmt.Sprintf("must be %q, which is reconciled, not %q", space, spec.Space)}
		case err == nil && seen[spec.Name]:
			err = &job.FieldError{Field: "name", Reason: "is given twice"}
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("schedule %d, %q: %w", i+1, spec.Name, err))
		}
		seen[spec.Name] = true
	}
	return specs, errors.Join(faults...)
}

// drop deletes an owner's schedule, if it is still the owner's.
func (s *Store) drop(ctx context.Context, space, name, owner string) (gone bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return again(ctx, func(ctx context.Context) (bool, error) {
		r, err := s.read(ctx, space, name)
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrUnreadable):
			return false, nil
		case err != nil:
			return false, err
		case r.Owner != owner:
			return false, nil
		}
		return true, s.remove(ctx, key(space, name), r.rev)
	})
}
