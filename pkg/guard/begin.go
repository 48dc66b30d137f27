package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nuid"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// CodeKeyReused refuses a run whose caller used the key before for something else.
const CodeKeyReused job.Code = "key_reused"

// Request is what a run wants to be. Space and Type are required.
type Request struct {
	// Kind says which budget it draws on. Defaults to KindCall.
	Kind  Kind
	Space string
	Type  string
	// Caller owns the run: nobody else may cancel it. Defaults to nobody, which is an owner like others: who has no name.
	Caller string
	// Key of which one run goes on at a time. Defaults to none: the run is only counted, and may be cancelled.
	Key Key
	// RunID by which it may be cancelled. Several runs of a space may go by one, and are cancelled together by the caller
	// of the first. Defaults to a new UUID.
	RunID string
	// Job that the run belongs to: what an earlier attempt of it left behind is taken over. Defaults to none.
	Job job.Key
	// Timeout after which the key is free, whatever became of its holder; the run's context ends a little earlier.
	// Defaults to that of the Guards.
	Timeout time.Duration
}

func (q *Request) normalize(timeout time.Duration) error {
	if q.Kind == "" {
		q.Kind = KindCall
	}
	if q.Kind != KindCall && q.Kind != KindRender {
		return &job.FieldError{Field: "kind", Reason: fmt.Sprintf("must be %s or %s, not %q", KindCall, KindRender, q.Kind)}
	}
	if err := names(q.Space, q.Type); err != nil {
		return err
	}
	if err := checkCaller(q.Caller); err != nil {
		return err
	}
	if q.RunID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("new run id: %w", err)
		}
		q.RunID = id.String()
	}
	if err := job.ValidateName("runId", q.RunID, job.MaxName); err != nil {
		return err
	}
	q.Timeout = cmp.Or(q.Timeout, timeout)
	return checkTimeout("timeout", q.Timeout)
}

// Begin makes a run of a request. Whoever has one has to End it.
//
// Its errors: a *job.Refusal of code over_capacity or duplicate, which mean not now, or key_reused; a *Replay, where the
// run has ended before; a *job.FieldError; and what the store could not answer, which is not for callers to see. None of
// them leaves anything to be ended.
func (g *Guards) Begin(ctx context.Context, q Request) (*Run, error) {
	if err := q.normalize(g.cfg.Timeout); err != nil {
		return nil, err
	}
	r := &Run{
		g: g, key: q.Key, base: ctx,
		info: Info{
			RunID: q.RunID, Kind: q.Kind, Space: q.Space, Type: q.Type, Caller: q.Caller, Job: q.Job,
			Started: time.Now(), Timeout: q.Timeout,
		},
	}
	if err := g.admit(r); err != nil {
		return nil, err
	}
	if err := g.begin(ctx, r, q); err != nil {
		g.dismiss(r)
		return nil, err
	}
	return r, nil
}

// begin takes what the run holds in the store.
func (g *Guards) begin(ctx context.Context, r *Run, q Request) error {
	within, cancel := context.WithTimeout(ctx, min(claimTime, q.Timeout))
	defer cancel()
	rec := record{RunID: q.RunID, Nonce: nuid.Next(), Space: q.Space, Type: q.Type, Caller: q.Caller, Job: q.Job}
	since := time.Now()
	if !q.Key.IsZero() {
		var err error
		if since, err = g.claimKey(within, r, rec, q.Timeout); err != nil {
			return err
		}
	}
	rec.Lifetime = q.Timeout.String()
	if err := g.claimRun(within, r, rec, q.Timeout); err != nil {
		if r.held != "" {
			cleaning, cancel := lasting(ctx)
			defer cancel()
			err = errors.Join(err, g.release(cleaning, r.key.place, r.held))
		}
		return err
	}
	r.start(ctx, since)
	return nil
}

// claimKey makes the run the one of its key.
func (g *Guards) claimKey(ctx context.Context, r *Run, rec record, ttl time.Duration) (time.Time, error) {
	rec.Digest = r.key.digest
	mine, err := rec.encode()
	if err != nil {
		return time.Time{}, fmt.Errorf("guard: begin: %w", err)
	}
	_, since, err := g.claim(ctx, r.key.place, mine, ttl, func(raw string) (string, error) {
		there, err := decodeRecord(raw)
		switch {
		case err != nil:
			return "", err
		case there.Ended && g.cfg.ReplayWindow == 0:
			return mine, nil // another replica has kept it, this one keeps nothing
		case there.Ended && there.Digest != r.key.digest:
			return "", job.Refuse(CodeKeyReused, "key_reused: this key was used before, for something else")
		case there.Ended:
			return "", &Replay{RunID: there.RunID, Job: there.Job, Result: there.Result}
		case there.Job != (job.Key{}) && there.Job == rec.Job:
			return mine, nil
		}
		return "", duplicate()
	})
	switch {
	case err == nil:
		r.held = mine
	case errors.Is(err, errTurns) && !errors.Is(err, kv.ErrUnknown): // whoever has it could not be seen, but has it
		err = duplicate()
	case !forCaller(err):
		err = fmt.Errorf("guard: begin: %s: %w", r.key.place, err)
	}
	return since, err
}

// errJoined: the run goes by the id of another, and with it.
var errJoined = errors.New("joined")

// claimRun makes the run known by its id, so that it can be cancelled.
func (g *Guards) claimRun(ctx context.Context, r *Run, rec record, ttl time.Duration) error {
	mine, err := rec.encode()
	if err != nil {
		return fmt.Errorf("guard: begin: %w", err)
	}
	r.place = place(rec.Space, rec.RunID)
	mine, _, err = g.claim(ctx, r.place, mine, ttl, func(raw string) (string, error) {
		there, err := decodeRecord(raw)
		if err != nil {
			return "", err
		}
		own := there.Job != (job.Key{}) && there.Job == rec.Job
		if own && !there.Cancelled {
			rec.Caller = there.Caller // who asked for the job owns its runs
			return rec.encode()
		}
		if own {
			r.known = []string{raw}
		}
		r.flagged = there.Cancelled
		return "", errJoined
	})
	switch {
	case errors.Is(err, errJoined):
		return nil
	case err != nil:
		return fmt.Errorf("guard: begin: run %q: %w", rec.RunID, err)
	}
	rec.Cancelled = true
	cancelled, err := rec.encode()
	if err != nil {
		return fmt.Errorf("guard: begin: %w", err)
	}
	r.known = []string{mine, cancelled}
	return nil
}

// forCaller reports whether an error was written for the caller.
func forCaller(err error) bool {
	return errors.As(err, new(*job.Refusal)) || errors.As(err, new(*Replay))
}
