package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Increment implements kv.Adapter. Increments of one key that come while another is under way are made by one write, each
// answering the sum that it would have had if they had come one by one. A caller whose context ends is answered at once:
// with kv.ErrUnknown if its part may be under way, and in any case it counts once at most.
func (b *Bucket) Increment(ctx context.Context, key string, amount int64) (int64, error) {
	if err := b.begin(ctx, key, 0); err != nil {
		return 0, failed("increment", key, err)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	subject := b.subject(key)
	a := &addition{amount: amount, done: make(chan struct{})}
	err := b.counters.join(subject, a, func() { b.wg.Go(func() { b.count(subject) }) })
	if err != nil {
		return 0, failed("increment", key, err)
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		switch left, open := b.counters.leave(a); {
		case left && open:
			return 0, failed("increment", key, fmt.Errorf("%w: %w", kv.ErrUnknown, late(ctx)))
		case left:
			return 0, failed("increment", key, late(ctx))
		}
	}
	if a.err != nil {
		return 0, failed("increment", key, a.err)
	}
	return a.sum, nil
}

// count makes the additions to one key until there are none.
func (b *Bucket) count(subject string) {
	known := b.counters.recall(subject)
	var batch []*addition
	for {
		ctx, abandon := context.WithCancel(b.ctx)
		f := &flight{abandon: abandon}
		batch = b.counters.board(subject, batch, f, known)
		if len(batch) == 0 {
			abandon()
			return
		}
		var err error
		known, err = b.fly(ctx, subject, batch, f, known)
		abandon()
		if errors.Is(err, errGuard) {
			continue // certainly not stored: with those that came meanwhile
		}
		for _, a := range batch { // those that have their answer keep it
			b.counters.answer(a, 0, err)
		}
		batch = nil
	}
}

// fly makes the additions of a batch by one write, over what is known to be there, or what the leader has where that is not
// known; and answers what is there then.
func (b *Bucket) fly(ctx context.Context, subject string, batch []*addition, f *flight, known *sum) (*sum, error) {
	var e *entry
	if b.holds(known) {
		e = known.entry
	} else {
		var err error
		if e, err = b.leaders(ctx, subject); err != nil {
			return nil, b.ended(err)
		}
	}
	w := over(subject, e)
	value := "0"
	if e.there(b.clock.Now()) {
		value, w.expires = string(e.value), e.expires
	}
	sums := make(map[*addition]int64, len(batch))
	for _, a := range batch {
		sum, err := kv.Sum(value, a.amount)
		if err != nil {
			b.counters.answer(a, 0, err)
			continue
		}
		sums[a] = sum
		value = strconv.FormatInt(sum, 10)
	}
	if len(sums) == 0 {
		return nil, nil
	}
	w.value = []byte(value)
	b.counters.launch(f)
	era := b.era()
	seq, err := b.commit(ctx, w)
	if err != nil {
		return nil, b.ended(err)
	}
	for a, total := range sums {
		b.counters.answer(a, total, nil)
	}
	return &sum{&entry{seq: seq, value: w.value, expires: w.expires}, era, time.Now()}, nil
}

// late is why a caller is answered before its sum is known.
func late(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", errSilent, ctx.Err())
	}
	return ctx.Err()
}

// ended names the reason where it is that the bucket was closed.
func (b *Bucket) ended(err error) error {
	if b.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}
