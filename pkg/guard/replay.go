package guard

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Replay is the error by which Begin answers that the run has ended already, within the replay window.
type Replay struct {
	RunID  string  // of the run that ended
	Job    job.Key // that it belonged to
	Result jsontext.Value
}

func (e *Replay) Error() string { return "the run has ended already, its answer was kept" }

// Do makes a run of fn, unless Begin has an error, and ends it, whether fn returns or panics. What fn answers without an
// error is kept for a replay; one that was kept is answered, with true, and fn is not called. fn gets the run's context.
//
// An error that wraps ErrNotReleased comes with the result, if fn had one: it was not fn's.
func (g *Guards) Do(ctx context.Context, q Request, fn func(ctx context.Context, r *Run) (jsontext.Value, error)) (result jsontext.Value, replayed bool, err error) {
	r, err := g.Begin(ctx, q)
	var kept *Replay
	switch {
	case errors.As(err, &kept):
		return kept.Result, true, nil
	case err != nil:
		return nil, false, err
	}
	defer func() { // also after a panic; after Finish it only answers the same
		if end := r.End(); end != nil {
			err = errors.Join(err, end)
		}
	}()
	result, err = fn(r.Context(), r)
	if err == nil {
		_ = r.Finish(result) // End answers its error
	}
	return result, false, err
}

// Holder is who has a key.
type Holder struct {
	RunID string
	Type  string
	Job   job.Key
	Ended bool // its answer is kept
}

// Holder looks up who has a key, such as to find the job of a run that was refused as a duplicate. It may be answered by a
// replica of the store that is a moment behind.
func (g *Guards) Holder(ctx context.Context, key Key) (Holder, bool, error) {
	if key.IsZero() {
		return Holder{}, false, &job.FieldError{Field: "key", Reason: "must not be the zero Key"}
	}
	raw, ok, err := g.cfg.Store.Get(ctx, key.place)
	if err != nil || !ok {
		return Holder{}, false, err
	}
	rec, err := decodeRecord(raw)
	if err != nil {
		return Holder{}, false, err
	}
	return Holder{RunID: rec.RunID, Type: rec.Type, Job: rec.Job, Ended: rec.Ended}, true, nil
}
