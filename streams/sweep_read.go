package streams

import (
	"context"
	"errors"
)

// While the server answers a batch, it takes no writes. It first counts what is left of the stream, or of what the
// filter matches, and then reads some 5 us for each message. So a batch is as large as to take about as long for that
// as for the counting: smaller ones would only have it count more often, larger ones would keep the writers waiting.
const (
	minBatch = 500
	maxBatch = 10_000

	countAll  = 50 // so many messages of the stream are counted while one is read
	countEach = 10 // so many that a filter matches

	// numbers is how many messages are asked for by number at a time: 15 us each, or less where there is none, and
	// whoever else reads or writes comes in between.
	numbers = 500
	// sparse is for how many sequences to a message it costs less to ask for a batch.
	sparse = 5
)

// some reads a batch of messages from a sequence on, and how many are left after it. counted is how many messages there
// are for the server to count, as far as is known.
func (s *Store) some(ctx context.Context, from uint64, filter string, counted int) ([]message, uint64, error) {
	sw := &s.sweep
	if sw.most == 0 {
		sw.most = maxBatch
	}
	n := counted / countEach
	if filter == "" {
		n = counted / countAll
	}
	msgs, left, err := s.read.batch(ctx, from, filter, max(minBatch, min(n, sw.most)))
	switch {
	case err == nil:
		sw.most = min(2*sw.most, maxBatch)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		sw.most = max(sw.most/2, minBatch) // it may come in time if it is smaller
	}
	return msgs, left, err
}

// byNumber reads the messages from one sequence on and up to, not including, another.
func (s *Store) byNumber(ctx context.Context, from, to uint64) ([]message, error) {
	var out []message
	for from < to {
		next := min(from+numbers, to)
		msgs, err := s.read.sequences(ctx, from, next)
		if err != nil {
			return nil, err
		}
		out = append(out, msgs...)
		from = next
	}
	return out, nil
}

// next reads the first message from a sequence on that filter matches; nil if there is none. (A batch of one would
// have the server count them all.)
func (s *Store) next(ctx context.Context, filter string, from uint64) (*message, error) {
	c, err := s.read.get(ctx, directRequest{Seq: max(from, 1), NextFor: filter})
	if err != nil || len(c.msgs) == 0 {
		return nil, err
	}
	return &c.msgs[0], nil
}
