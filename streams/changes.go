package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Deleted is the state of a Change by which a job's record was deleted.
const Deleted = job.Status(stateDeleted)

// Change is a job as it was written under a sequence of the stream.
type Change struct {
	Seq   uint64
	State job.Status // a status, with ready or due for pending, or Deleted
	Job   *job.Job
}

// ChangesRequest asks for what was written from one sequence on and up to, not including, another. Names that are empty
// do not narrow it.
type ChangesRequest struct {
	Queue, Space, ID string
	From, To         uint64
}

const (
	// changesSingly is how many sequences are asked for one by one; of more than that the server is asked by a filter,
	// and counts what that matches.
	changesSingly = 4096
	// changesAtOnce is how many are asked for at a time.
	changesAtOnce = 512
)

// Bounds answers the first and the last sequence of the stream, as its leader knows them.
func (s *Store) Bounds(ctx context.Context) (first, last uint64, err error) {
	st, err := s.streamState(ctx)
	return st.first, st.last, err
}

// Changes tells fn of what is left of the changes that a request means, in the order of their sequences. A job's newest
// change is left for as long as its record is; earlier ones go as it moves on. In a cluster, nothing is left out because a
// replica is behind. It ends with fn's error.
func (s *Store) Changes(ctx context.Context, req ChangesRequest, fn func(Change) error) error {
	if req.To <= req.From {
		return nil
	}
	if req.To-req.From > changesSingly {
		return s.changesByFilter(ctx, req, fn)
	}
	for from := req.From; from < req.To; from += changesAtOnce {
		seqs := make([]uint64, 0, changesAtOnce)
		for seq := from; seq < min(from+changesAtOnce, req.To); seq++ {
			seqs = append(seqs, seq)
		}
		changes, err := s.ChangesAt(ctx, seqs)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if !req.means(c.Job.Key()) {
				continue
			}
			if err := fn(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *ChangesRequest) means(k job.Key) bool {
	return (r.Queue == "" || r.Queue == k.Queue) && (r.Space == "" || r.Space == k.Space) && (r.ID == "" || r.ID == k.ID)
}

// filter is the subject of what the request means.
func (r *ChangesRequest) filter(n names) string {
	part := func(name string, token func(string) string) string {
		if name == "" {
			return "*"
		}
		return token(name)
	}
	return strings.Join([]string{n.ns, "job", "*", part(r.Queue, queueToken), part(r.Space, escape), part(r.ID, escape)}, ".")
}

// changesByFilter reads in batches. A replica that has a message had all before it, so a batch accounts for everything
// up to its last message; the leader for what is after that.
func (s *Store) changesByFilter(ctx context.Context, req ChangesRequest, fn func(Change) error) error {
	filter, from := req.filter(s.names), max(req.From, 1)
	for from < req.To {
		msgs, _, err := s.read.batch(ctx, from, filter, changesAtOnce)
		if err != nil {
			return fmt.Errorf("changes: %w", err)
		}
		if len(msgs) == 0 {
			m, err := s.leaderNext(ctx, filter, from)
			if errors.Is(err, job.ErrNotFound) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("changes: %w", err)
			}
			msgs = []message{m}
		}
		for _, m := range msgs {
			if m.seq >= req.To {
				return nil
			}
			if c, ok := s.names.change(m); ok && req.means(c.Job.Key()) {
				if err := fn(c); err != nil {
					return err
				}
			}
		}
		from = msgs[len(msgs)-1].seq + 1
	}
	return nil
}

// ChangesAt answers what was written under some sequences, in their order, without those that hold none, or none any more.
func (s *Store) ChangesAt(ctx context.Context, seqs []uint64) ([]Change, error) {
	seqs = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(seqs))), func(seq uint64) bool { return seq == 0 })
	var msgs []message
	for part := range slices.Chunk(seqs, changesAtOnce) {
		found, missing, err := s.read.single(ctx, part)
		if err != nil {
			return nil, fmt.Errorf("changes: %w", err)
		}
		msgs = append(msgs, found...)
		for _, r := range runsOf(missing) {
			if found, err = s.behind(ctx, r); err != nil {
				return nil, fmt.Errorf("changes: %w", err)
			}
			msgs = append(msgs, found...)
		}
	}
	slices.SortFunc(msgs, func(a, b message) int { return cmp.Compare(a.seq, b.seq) })
	var out []Change
	for _, m := range msgs {
		if c, ok := s.names.change(m); ok {
			out = append(out, c)
		}
	}
	return out, nil
}

// behind answers what there is of a run that a replica did not have: it may not have it yet. One that has what follows
// the run had all of it, and the leader has all there is.
func (s *Store) behind(ctx context.Context, r run) (msgs []message, err error) {
	for r.from <= r.to {
		c, err := s.read.get(ctx, directRequest{Seq: r.from, NextFor: ">"})
		if err != nil {
			return nil, err
		}
		var m message
		if len(c.msgs) > 0 {
			m = c.msgs[0]
		} else if m, err = s.leaderNext(ctx, ">", r.from); errors.Is(err, job.ErrNotFound) {
			return msgs, nil
		} else if err != nil {
			return nil, err
		}
		if m.seq > r.to {
			return msgs, nil
		}
		msgs = append(msgs, m)
		r.from = m.seq + 1
	}
	return msgs, nil
}

// change reads a message as a change of a job. Others of the stream's are none.
func (n names) change(m message) (Change, bool) {
	if !strings.HasPrefix(m.subject, n.ns+".job.") {
		return Change{}, false
	}
	r := n.record(m)
	if !r.state.valid() || r.Job.ID == "" {
		return Change{}, false
	}
	return Change{Seq: r.seq, State: job.Status(r.state), Job: r.public()}, true
}
