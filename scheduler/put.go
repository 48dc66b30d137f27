package scheduler

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

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
		old, err := s.read(ctx, spec.Space, spec.Name)
		switch {
		case errors.Is(err, ErrNotFound):
			old = &record{}
		case errors.Is(err, ErrUnreadable): // a put is how it is mended
			old = &record{rev: old.rev}
		case err != nil:
			return nil, err
		case old.Owner != owner:
			return nil, ownedBy(old.Owner)
		}
		next, err := s.merge(old, owner, spec)
		if err != nil {
			return nil, err
		}
		change = Updated
		switch {
		case old.rev == 0:
			change = Created
		case same(&old.Schedule, &next.Schedule):
			change = Unchanged
			return &old.Schedule, nil
		}
		if err := s.fits(next); err != nil {
			return nil, err
		}
		r, err := s.write(ctx, next)
		if err != nil {
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

// merge is what a spec makes of a record.
func (s *Store) merge(old *record, owner string, spec Spec) (*record, error) {
	now := s.clock.Now()
	next := *old
	if spec.Enabled == nil {
		enabled := old.rev == 0 || old.Active()
		spec.Enabled = &enabled
	}
	next.Spec, next.Owner = spec, owner
	if next.CreatedAt.IsZero() {
		next.CreatedAt = job.Millis(now)
	}
	t, err := spec.timing()
	if err != nil {
		return nil, err
	}
	switch {
	case old.NextRunAt.IsZero():
		next.NextRunAt = t.first(now)
	case old.sameTiming(&spec):
	case old.sameCron(&spec): // the same instants, moved
		if t.every == 0 {
			next.NextRunAt = old.NextRunAt.Add(t.shift - old.shift())
		}
	default:
		next.NextRunAt, next.PromisedQueue = t.first(now), ""
		return &next, nil
	}
	if old.rev != 0 && old.NextRunAt.Before(now.Add(clockSkew)) {
		next.PromisedQueue = cmp.Or(old.PromisedQueue, old.Queue)
	}
	if next.PromisedQueue == spec.Queue {
		next.PromisedQueue = ""
	}
	return &next, nil
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
