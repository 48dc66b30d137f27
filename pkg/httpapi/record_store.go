package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func (a *Access) recordSpace() *kv.Space { return a.store.Space("records") }

// keep stores records, and takes out of what it is given what it has stored.
func (a *Access) keep(ctx context.Context, refusals *map[string]map[refusalKey]*Refusal, failures *[]Failure, used map[string]time.Time) error {
	for set, rows := range *refusals {
		if err := a.keepRefusals(ctx, set, rows); err != nil {
			return err
		}
		delete(*refusals, set)
	}
	byShard := make(map[string][]Failure)
	for _, f := range *failures {
		shard := failureShard(f.ErrorID)
		byShard[shard] = append(byShard[shard], f)
	}
	for shard, some := range byShard {
		_, err := kv.Change(ctx, a.recordSpace(), shard, func(had *[]Failure) (*[]Failure, error) {
			var next []Failure
			if had != nil {
				next = slices.Clone(*had)
			}
			next = append(next, some...)
			next = next[max(len(next)-maxFailuresKept, 0):]
			return &next, nil
		}, kv.Lasting[[]Failure](recordsFor))
		if err != nil {
			return fmt.Errorf("store failures: %w", err)
		}
		*failures = slices.DeleteFunc(*failures, func(f Failure) bool { return failureShard(f.ErrorID) == shard })
	}
	if len(used) == 0 {
		return nil
	}
	_, err := kv.Change(ctx, a.tokenSpace(), usedKey, func(had *map[string]time.Time) (*map[string]time.Time, error) {
		next := make(map[string]time.Time)
		if had != nil {
			maps.Copy(next, *had)
		}
		for name, at := range used {
			if at.After(next[name]) {
				next[name] = at
			}
		}
		maps.DeleteFunc(next, func(_ string, at time.Time) bool { return a.now().Sub(at) > maxTokenLife })
		return &next, nil
	}, nil)
	if err != nil {
		return fmt.Errorf("store when tokens were used: %w", err)
	}
	return nil
}

// keepRefusals adds to a set of them, and lets the oldest go.
func (a *Access) keepRefusals(ctx context.Context, set string, rows map[refusalKey]*Refusal) error {
	_, err := kv.Change(ctx, a.recordSpace(), set, func(had *[]Refusal) (*[]Refusal, error) {
		merged := make(map[refusalKey]*Refusal)
		if had != nil {
			for _, r := range *had {
				merged[r.key()] = &r
			}
		}
		for key, r := range rows {
			if old := merged[key]; old != nil {
				old.add(*r)
			} else {
				one := *r
				merged[key] = &one
			}
		}
		next := make([]Refusal, 0, len(merged))
		for _, r := range merged {
			next = append(next, *r)
		}
		next = a.newest(next, a.now().Add(-recordsFor), maxRefusals)
		return &next, nil
	}, kv.Lasting[[]Refusal](recordsFor))
	if err != nil {
		return fmt.Errorf("store refusals: %w", err)
	}
	return nil
}

// newest are the newest of them, the newest first.
func (a *Access) newest(all []Refusal, since time.Time, limit int) []Refusal {
	all = slices.DeleteFunc(all, func(r Refusal) bool { return r.LastAt.Before(since) })
	slices.SortFunc(all, func(a, b Refusal) int {
		return cmp.Or(b.LastAt.Compare(a.LastAt), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Request, b.Request))
	})
	return all[:min(limit, len(all))]
}

// Refusals lists the records of refused requests, the newest first; since may be zero. They come to be there a few
// seconds after the requests.
func (a *Access) Refusals(ctx context.Context, since time.Time, limit int) ([]Refusal, error) {
	if oldest := a.now().Add(-recordsFor); since.Before(oldest) {
		since = oldest
	}
	all := []Refusal{}
	for _, set := range []string{ofTokens, ofOthers} {
		some, _, err := kv.Get[[]Refusal](ctx, a.recordSpace(), set)
		if err != nil && !errors.Is(err, ErrNoStore) {
			return nil, fmt.Errorf("list refusals: %w", err)
		}
		all = append(all, some...)
	}
	return a.newest(all, since, limit), nil
}

// Failure is the record of a failure, by the id that a caller was given. The error to branch on is ErrNoRecord: it was
// never there, or is not any more, or will be in a few seconds.
func (a *Access) Failure(ctx context.Context, id string) (Failure, error) {
	none := fmt.Errorf("error %.64q: %w", id, ErrNoRecord)
	if id == "" || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return Failure{}, none
	}
	some, _, err := kv.Get[[]Failure](ctx, a.recordSpace(), failureShard(id))
	if err != nil && !errors.Is(err, ErrNoStore) {
		return Failure{}, fmt.Errorf("get failure: %w", err)
	}
	for _, f := range some {
		if f.ErrorID == id && a.now().Sub(f.At) < recordsFor {
			return f, nil
		}
	}
	return Failure{}, none
}

// failureShard is the key under which the failures stand whose ids begin alike.
func failureShard(id string) string { return "errors/" + id[:1] }
