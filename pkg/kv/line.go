package kv

import (
	"context"
	"sync"
	"time"
)

// turnLasts is how long a change may keep those behind it waiting. Nothing depends on turns but how many races are lost:
// so whoever takes longer, or waits within its own change for another one, is not waited for.
const turnLasts = time.Second

// lines are where the changes of one process wait, so that those of one key come one after another, in the order in which
// they came, instead of losing to each other.
type lines struct {
	mu    sync.Mutex
	byKey map[string]*line
}

// line is where the changes of one key wait.
type line struct {
	turn chan struct{} // full while somebody has the turn; those who wait to fill it do so in the order they came
	in   int           // who has the turn or waits for it; guarded by lines.mu
}

// join waits for a turn. It is to be left once; where it fails, it has been.
func (l *lines) join(ctx context.Context, key string) (leave func(), err error) {
	here := l.enter(key)
	select {
	case here.turn <- struct{}{}:
	case <-ctx.Done():
		l.exit(key, here)
		return nil, ctx.Err()
	}
	pass := sync.OnceFunc(func() {
		<-here.turn
		l.exit(key, here)
	})
	lapse := time.AfterFunc(turnLasts, pass)
	return func() {
		lapse.Stop()
		pass()
	}, nil
}

func (l *lines) enter(key string) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	here := l.byKey[key]
	if here == nil {
		here = &line{turn: make(chan struct{}, 1)}
		l.byKey[key] = here
	}
	here.in++
	return here
}

func (l *lines) exit(key string, here *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if here.in--; here.in == 0 {
		delete(l.byKey, key)
	}
}
