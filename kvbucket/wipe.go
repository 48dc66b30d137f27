package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// wipers is how many deletes a wipe has under way.
const wipers = 64

// Wipe implements kv.Adapter. Each key is deleted at the revision that was found: one that is written anew meanwhile
// stays, and is not counted.
func (b *Bucket) Wipe(ctx context.Context, prefix string) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan *write)
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		wiped int
		first error
	)
	for range wipers {
		all.Go(func() {
			for w := range found {
				gone, err := b.wipe(ctx, w)
				mu.Lock()
				if gone {
					wiped++
				}
				if err != nil && first == nil {
					first = err
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	err := b.walk(ctx, prefix, func(key string, e *entry) bool {
		w := over(b.subject(key), e)
		w.marker = true
		select {
		case found <- w:
			return true
		case <-ctx.Done():
			return false
		}
	})
	close(found)
	all.Wait()
	if first != nil {
		err = first
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return wiped, fmt.Errorf("kvbucket: wipe %.200q: %w", prefix, err)
	}
	return wiped, nil
}

func (b *Bucket) wipe(ctx context.Context, w *write) (bool, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err := b.commit(ctx, w)
	if errors.Is(err, errGuard) {
		return false, nil
	}
	return err == nil, err
}
