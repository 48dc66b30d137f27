package httpapi

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/jetcrew/jetcrew/pkg/config"
)

const (
	// maxWindows is how many names are counted in the store in one period. What has a name beyond is counted together, by
	// each process for itself: names are the callers' to choose.
	maxWindows = 10_000
	// limitTimeout bounds what a request waits for its being counted.
	limitTimeout = time.Second
	// limitPause is how long nothing is counted in the store after that has failed.
	limitPause = time.Second
)

// counting adds n to a name's count in the store, which begins at zero in each period, and answers the sum.
type counting func(ctx context.Context, name string, period, n int64, ttl time.Duration) (int64, error)

// limiter counts in periods that begin at multiples of their length, by the store's clock, so that processes agree on
// them without a word. It takes a hundredth of what is allowed from the store at a time, and asks it nothing more in a
// period that is used up: a flood of requests is no flood of writes. What a process has taken and does not use is lost
// to the others until the period ends. While the store does not answer, each process allows the whole rate by itself.
type limiter struct {
	rate config.Rate

	mu      sync.Mutex
	period  int64
	windows map[string]*window
	rest    *window
}

// window is what a process knows of a name's count in a period.
type window struct {
	mu     sync.Mutex
	left   int // taken from the store, and not used yet
	used   int // in this process
	full   bool
	failed time.Time
}

// take uses up one, or answers how long it takes until there are some again. An error says why the store could not be
// asked; what is answered counts none the less.
func (l *limiter) take(ctx context.Context, name string, now time.Time, count counting) (wait time.Duration, err error) {
	if !l.rate.Limits() {
		return 0, nil
	}
	period := now.UnixNano() / int64(l.rate.Per)
	wait = time.Unix(0, (period+1)*int64(l.rate.Per)).Sub(now)
	w, shared := l.window(name, period)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.full && w.left == 0 && !shared && time.Since(w.failed) >= limitPause {
		err = l.refill(ctx, w, name, period, count)
	}
	switch {
	case w.full:
		return wait, err
	case w.left > 0:
		w.left--
	case w.used >= l.rate.Count: // by itself
		return wait, err
	}
	w.used++
	return 0, err
}

// refill takes some from the store.
func (l *limiter) refill(ctx context.Context, w *window, name string, period int64, count counting) error {
	ctx, cancel := context.WithTimeout(ctx, limitTimeout)
	defer cancel()
	some := max(l.rate.Count/100, 1)
	total, err := count(ctx, name, period, int64(some), l.rate.Per)
	if err != nil {
		w.failed = time.Now()
		return err
	}
	before := total - int64(some)
	w.left = int(min(int64(some), max(int64(l.rate.Count)-before, 0)))
	w.full = w.left == 0
	return nil
}

func (l *limiter) window(name string, period int64) (w *window, shared bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.windows == nil || l.period != period {
		l.period, l.windows, l.rest = period, make(map[string]*window), &window{}
	}
	if w = l.windows[name]; w != nil {
		return w, false
	}
	if len(l.windows) >= maxWindows {
		return l.rest, true
	}
	w = &window{}
	l.windows[name] = w
	return w, false
}

// limitToken counts a request of a token.
func (a *Access) limitToken(ctx context.Context, name string) *Problem {
	if a == nil {
		return nil
	}
	return a.limited(ctx, &a.limits.token, "token "+name, name,
		func(ctx context.Context, name string, period, n int64, ttl time.Duration) (int64, error) {
			return a.tokenSpace().Increment(ctx, fmt.Sprintf("rate/%s/%d", name, period), n, ttl)
		})
}

// limitSpace counts a request that concerns a space, among what is kept for that space: in the API's own part of the
// store, where who may write the space's keys cannot set back the count.
func (a *Access) limitSpace(ctx context.Context, space string) *Problem {
	if a == nil {
		return nil
	}
	return a.limited(ctx, &a.limits.space, "space", space,
		func(ctx context.Context, name string, period, n int64, ttl time.Duration) (int64, error) {
			return a.store.Space(name).Increment(ctx, "rate/"+strconv.FormatInt(period, 10), n, ttl)
		})
}

func (a *Access) limited(ctx context.Context, l *limiter, what, name string, count counting) *Problem {
	wait, err := l.take(ctx, name, a.now(), count)
	if err != nil && ctx.Err() == nil {
		a.cfg.Logger.Warn().Err(err).Msg("a rate could not be counted in the store: this process counts for itself")
	}
	if wait <= 0 {
		return nil
	}
	p := newProblem(http.StatusTooManyRequests, CodeRateLimited, "the "+what+" has made all the requests that it may in "+config.FormatDuration(l.rate.Per)+"; nothing was changed")
	p.retryAfter = int(math.Ceil(wait.Seconds()))
	return p
}
