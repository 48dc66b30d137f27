package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/streams"
)

// Filter says which schedules are listed. The zero value is all.
type Filter struct {
	Space string  // empty: every space
	Owner *string // nil: whoever's
	Limit int     // 0: none
	// DueBy leaves out what is not enabled, or is promised for later. Zero: nothing is left out.
	DueBy time.Time
}

// Listing is what a list found.
type Listing struct {
	// Schedules by their promised instants, the earliest first.
	Schedules []Schedule
	// Unreadable says what is stored among them that is no schedule, a text for each. It never fires.
	Unreadable []error
}

// List reads the schedules that a filter asks for.
func (s *Store) List(ctx context.Context, f Filter) (Listing, error) {
	var out Listing
	ctx, cancel := bounded(ctx)
	defer cancel()
	pattern := ">"
	if f.Space != "" {
		pattern = streams.Token(f.Space) + ".*"
	}
	err := s.each(ctx, pattern, func(e jetstream.KeyValueEntry) {
		r, err := decode(e.Key(), e.Value(), e.Revision())
		switch {
		case err != nil:
			out.Unreadable = append(out.Unreadable, err)
		case f.takes(&r.Schedule):
			out.Schedules = append(out.Schedules, r.Schedule)
		}
	})
	if err != nil {
		return Listing{}, fmt.Errorf("listing schedules: %w", err)
	}
	slices.SortFunc(out.Schedules, func(a, b Schedule) int {
		return cmp.Or(never(&a)-never(&b), a.NextRunAt.Compare(b.NextRunAt), cmp.Compare(a.Space, b.Space), cmp.Compare(a.Name, b.Name))
	})
	if f.Limit > 0 && len(out.Schedules) > f.Limit {
		out.Schedules = out.Schedules[:f.Limit]
	}
	return out, nil
}

// never is 1 for a schedule that has nothing promised: it stands last.
func never(s *Schedule) int {
	if s.NextRunAt.IsZero() {
		return 1
	}
	return 0
}

// Due lists what is due at an instant of the store's clock, the oldest first.
func (s *Store) Due(ctx context.Context, limit int) (Listing, error) {
	return s.List(ctx, Filter{DueBy: s.clock.Now(), Limit: limit})
}

func (f *Filter) takes(s *Schedule) bool {
	switch {
	case f.Space != "" && s.Space != f.Space, f.Owner != nil && s.Owner != *f.Owner:
		return false
	case f.DueBy.IsZero():
		return true
	}
	return s.due(f.DueBy)
}

func (s *Schedule) due(now time.Time) bool {
	return s.Active() && !s.NextRunAt.IsZero() && !s.NextRunAt.After(now)
}

// each visits what is stored now.
func (s *Store) each(ctx context.Context, pattern string, visit func(jetstream.KeyValueEntry)) error {
	w, err := s.kv.Watch(ctx, pattern, jetstream.IgnoreDeletes())
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case e, ok := <-w.Updates():
			if !ok {
				return fmt.Errorf("the list was broken off: %w", cmp.Or(ctx.Err(), context.Canceled))
			}
			if e == nil { // the end of what was there
				return nil
			}
			visit(e)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
