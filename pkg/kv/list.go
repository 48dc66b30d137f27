package kv

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Limits of a list.
const (
	MaxEntries   = 500
	MaxListBytes = 128_000 // of its JSON
	MaxEntryID   = 128
)

// List is a ranked list of a space: highest score first, and by id where scores are equal. It is one value of the
// store, changed as Change does it, and without a lifetime. A list without entries is not stored.
//
// What stands in a stored list and is no entry is passed over, and not written back; what is stored under the list's name
// and is no list reads as an empty one.
type List struct {
	space *Space
	name  string
}

// List is the list of that name. Lists and values have names of their own: a list and a key may be called the same.
func (s *Space) List(name string) *List { return &List{space: s, name: name} }

// Order is an order of entries.
type Order int

// Orders of entries.
const (
	Descending Order = iota // the highest score first
	Ascending               // the exact reverse
)

// PutOption is an option of List.Put.
type PutOption func(*put)

type put struct {
	keep       float64
	higherOnly bool
}

// Keep is how many entries the list shall have at most, the highest ones: 0 to 500, which is the default. A fraction is
// cut off; less than 0 is 0, and more than 500 is 500.
func Keep[N int | float64](n N) PutOption {
	return func(p *put) { p.keep = float64(n) }
}

// HigherOnly leaves an entry as it is if its score is higher than the new one.
func HigherOnly() PutOption {
	return func(p *put) { p.higherOnly = true }
}

// Put adds an entry, or replaces the one of that id: 1 to 128 of A-Z a-z 0-9 : _ . @ -. The score has to be finite. It
// answers whether the entry was stored, which only HigherOnly prevents, and the entries that fell off the end, highest
// first; an entry that falls off at once was stored, and is one of them.
//
// A list whose JSON is longer than 128,000 bytes, after what falls off, is ErrTooLarge.
func (l *List) Put(ctx context.Context, id string, score float64, value any, opts ...PutOption) (stored bool, dropped []Entry, err error) {
	entry, keep, higherOnly, err := newPut(id, score, value, opts)
	if err != nil {
		return false, nil, l.space.failed("put into list", l.name, err)
	}
	err = l.change(ctx, MaxListBytes, func(entries []Entry) ([]Entry, bool) {
		stored, dropped = true, nil
		at := slices.IndexFunc(entries, func(e Entry) bool { return e.ID == id })
		if at >= 0 && higherOnly && entries[at].Score > score {
			stored = false
			return nil, false
		}
		if at >= 0 {
			entries = slices.Delete(entries, at, at+1)
		}
		at, _ = slices.BinarySearchFunc(entries, entry, rank)
		entries = slices.Insert(entries, at, entry)
		if len(entries) > keep {
			entries, dropped = entries[:keep:keep], entries[keep:]
		}
		return entries, true
	})
	if err != nil {
		return false, nil, err
	}
	return stored, dropped, nil
}

func newPut(id string, score float64, value any, opts []PutOption) (entry Entry, keep int, higherOnly bool, err error) {
	p := put{keep: MaxEntries}
	for _, opt := range opts {
		opt(&p)
	}
	switch {
	case !validID(id):
		err = &job.FieldError{Field: "id", Reason: fmt.Sprintf("must be 1 to %d of A-Z a-z 0-9 : _ . @ -, not %.*q", MaxEntryID, MaxEntryID, id)}
	case !finite(score):
		err = &job.FieldError{Field: "score", Reason: fmt.Sprintf("must be a finite number, not %v", score)}
	case math.IsNaN(p.keep):
		err = &job.FieldError{Field: "keep", Reason: fmt.Sprintf("must be a number from 0 to %d, not NaN", MaxEntries)}
	}
	if err != nil {
		return Entry{}, 0, false, err
	}
	raw, err := encode(value)
	// Adding 0 makes a zero of the negative one, which JSON would write differently.
	entry = Entry{ID: id, Score: score + 0, Value: jsontext.Value(raw)}
	return entry, int(min(max(p.keep, 0), MaxEntries)), p.higherOnly, err
}

// Remove removes an entry, and answers whether it was there.
func (l *List) Remove(ctx context.Context, id string) (bool, error) {
	was := false
	noLimit := math.MaxInt // or a list that is too long could not be made shorter
	err := l.change(ctx, noLimit, func(entries []Entry) ([]Entry, bool) {
		at := slices.IndexFunc(entries, func(e Entry) bool { return e.ID == id })
		if was = at >= 0; !was {
			return nil, false
		}
		return slices.Delete(entries, at, at+1), true
	})
	if err != nil {
		return false, err
	}
	return was, nil
}

// Range answers at most limit entries in an order, without the first offset ones of it. Neither may be negative.
func (l *List) Range(ctx context.Context, offset, limit int, order Order) ([]Entry, error) {
	const op = "read list"
	for _, f := range []struct {
		name string
		n    int
	}{{"offset", offset}, {"limit", limit}} {
		if f.n < 0 {
			return nil, l.space.failed(op, l.name, &job.FieldError{Field: f.name, Reason: fmt.Sprintf("must not be negative, but is %d", f.n)})
		}
	}
	composed, err := l.space.compose(l.space.lists, l.name)
	if err != nil {
		return nil, l.space.failed(op, l.name, err)
	}
	raw, _, err := l.space.store.adapter.Get(ctx, composed)
	if err != nil {
		return nil, l.space.failed(op, l.name, err)
	}
	entries := decodeList(raw)
	if order == Ascending {
		slices.Reverse(entries)
	}
	from := min(offset, len(entries))
	to := from + min(limit, len(entries)-from)
	return entries[from:to:to], nil
}

// Delete removes the list.
func (l *List) Delete(ctx context.Context) error {
	composed, err := l.space.compose(l.space.lists, l.name)
	if err == nil {
		err = l.space.store.adapter.Delete(ctx, composed)
	}
	if err != nil {
		return l.space.failed("delete list", l.name, err)
	}
	return nil
}

// change lets decide answer the next entries in their order, and whether they are to be written, in at most maxBytes.
func (l *List) change(ctx context.Context, maxBytes int, decide func(entries []Entry) ([]Entry, bool)) error {
	composed, err := l.space.compose(l.space.lists, l.name)
	if err != nil {
		return l.space.failed("change list", l.name, err)
	}
	return l.space.change(ctx, l.name, composed, func(raw *string) (*next, error) {
		var entries []Entry
		if raw != nil {
			entries = decodeList(*raw)
		}
		entries, changed := decide(entries)
		if !changed {
			return nil, nil
		}
		if len(entries) == 0 {
			return &next{}, nil
		}
		value, err := encode(entries)
		if err == nil && len(value) > maxBytes {
			err = fmt.Errorf("%w: its JSON would have %d bytes, at most %d are allowed: keep fewer entries, or store long values "+
				"under keys of their own and only those keys in the list", ErrTooLarge, len(value), maxBytes)
		}
		if err != nil {
			return nil, l.space.failed("change list", l.name, err)
		}
		return &next{value: &value}, nil
	})
}
