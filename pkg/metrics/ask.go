package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// askFor is how long a scrape waits for what others know: it has to answer while they are silent, too.
	askFor = 2500 * time.Millisecond
	// goodFor is how long an answer is good for. Whoever scrapes more often gets the same once more.
	goodFor = 5 * time.Second
)

// asked collects what has to be asked for. It asks on a goroutine of its own, one at a time: a connection whose peer
// does not read may hold up even the question, and a scrape must not wait for that.
type asked struct {
	descs  []*prometheus.Desc
	good   time.Duration // for how long an answer is
	ask    func(ctx context.Context) ([]prometheus.Metric, error)
	silent []prometheus.Metric // what to say instead, of what was not answered
	log    func(error)

	mu     sync.Mutex          // guards what follows
	asking chan struct{}       // closed when that is answered; nil: nobody asks
	at     time.Time           // of the answer
	answer []prometheus.Metric // or silent
}

func (a *asked) Describe(to chan<- *prometheus.Desc) {
	for _, d := range a.descs {
		to <- d
	}
}

func (a *asked) Collect(to chan<- prometheus.Metric) {
	for _, m := range a.current() {
		to <- m
	}
}

// current is an answer that is good, or what stands for one that did not come in time.
func (a *asked) current() []prometheus.Metric {
	a.mu.Lock()
	if a.asking == nil {
		if !a.at.IsZero() && time.Since(a.at) < a.good {
			defer a.mu.Unlock()
			return a.answer
		}
		a.asking = make(chan struct{})
		go a.renew(a.asking)
	}
	asking := a.asking
	a.mu.Unlock()

	late := time.NewTimer(askFor + askFor/10) // a little more than the question has
	defer late.Stop()
	select {
	case <-asking:
	case <-late.C:
		return a.silent
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.answer
}

// renew asks, and keeps the answer.
func (a *asked) renew(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	answer, err := a.ask(ctx)
	if err != nil {
		a.log(err)
		answer = append(answer, a.silent...)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at, a.answer, a.asking = time.Now(), answer, nil
	close(done)
}
