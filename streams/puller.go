package streams

import (
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

const (
	pullExpires   = 30 * time.Second // how long one request for messages stands
	pullHeartbeat = 5 * time.Second  // how often the server says that it still does
	// pullGather is how long requests are gathered, so that not every finished job makes one of its own.
	pullGather = 100 * time.Microsecond
)

// puller asks a consumer for messages, as many as are wanted and no more, over one inbox. Its watchdog begins
// anew on another inbox when the server has been silent for too long: pulls stall after reconnects and changes
// of leader.
//
// (The client library's own ways to consume either prefetch a fixed number, which burns the leases of what
// waits, or open a subscription for each request.)
type puller struct {
	nc       *nats.Conn
	log      zerolog.Logger // of the wakes' puller none: it fails and recovers with the jobs' one
	stream   string
	consumer string
	want     func(outstanding int) int // how many more messages there is use for
	receive  func(*nats.Msg)           // called for each message, in order
	missing  func() error              // called when the consumer seems to be gone
	spawn    func(func())              // runs what must not hold up the subscription

	poked chan struct{}

	mu          sync.Mutex // guards what follows
	sub         *nats.Subscription
	inbox       string
	outstanding int // asked for, and not delivered yet
	heard       time.Time
	retryAt     time.Time // no request before; after an error
	failures    int
	troubles    int // how often in a row the consumer could not be asked
	stopped     bool
}

func (p *puller) poke() {
	select {
	case p.poked <- struct{}{}:
	default:
	}
}

// run asks for messages until done is closed. What was asked for by then may still be delivered; see drain.
func (p *puller) run(done <-chan struct{}) {
	p.restart()
	watchdog := time.NewTicker(time.Second)
	defer watchdog.Stop()
	gather := time.NewTimer(0)
	defer gather.Stop()
	var asked time.Time
	for {
		select {
		case <-done:
			return
		case <-p.poked:
			if wait := pullGather - time.Since(asked); wait > 0 {
				gather.Reset(wait)
				continue
			}
			p.request()
			asked = time.Now()
		case <-gather.C:
			p.request()
			asked = time.Now()
		case <-watchdog.C:
			p.watch()
			p.request()
		}
	}
}

// restart subscribes anew, and forgets what was asked for.
func (p *puller) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	old := p.sub
	p.inbox = p.nc.NewInbox()
	p.outstanding = 0
	p.heard = time.Now()
	inbox := p.inbox
	sub, err := p.nc.Subscribe(inbox, func(m *nats.Msg) { p.dispatch(inbox, m) })
	if err != nil {
		p.sub = nil
		p.retryAt = time.Now().Add(time.Second)
		return
	}
	_ = sub.SetPendingLimits(-1, -1) // what was asked for is bounded already
	p.sub = sub
	if old != nil {
		_ = old.Drain() // what is on its way still counts; fails only on a closed connection
	}
	p.poke()
}

func (p *puller) watch() {
	p.mu.Lock()
	silent := time.Since(p.heard) > 2*pullHeartbeat+pullHeartbeat/2
	stalled := p.sub == nil || p.outstanding > 0 && silent && p.nc.IsConnected()
	due := time.Now().After(p.retryAt)
	failures := p.failures
	p.mu.Unlock()
	if !stalled || !due {
		return
	}
	p.troubled(nil, "", "no sign of life")
	if failures > 2 {
		_ = p.nc.ForceReconnect() // the subscription did not help, so the connection may be dead
	}
	p.fail(nil)
	p.restart()
}

// fail notes that asking failed, and puts off the next request for ever longer.
func (p *puller) fail(also func()) {
	p.mu.Lock()
	p.failures++
	wait := min(100*time.Millisecond<<min(p.failures, 6), 5*time.Second)
	p.retryAt = time.Now().Add(wait)
	p.mu.Unlock()
	if also != nil {
		also()
	}
	time.AfterFunc(wait+time.Millisecond, p.poke)
}

func (p *puller) request() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || p.sub == nil || time.Now().Before(p.retryAt) || !p.nc.IsConnected() {
		return
	}
	n := p.want(p.outstanding)
	if n <= 0 {
		return
	}
	body := make([]byte, 0, 96)
	body = append(body, `{"batch":`...)
	body = strconv.AppendInt(body, int64(n), 10)
	body = append(body, `,"expires":`...)
	body = strconv.AppendInt(body, int64(pullExpires), 10)
	body = append(body, `,"idle_heartbeat":`...)
	body = strconv.AppendInt(body, int64(pullHeartbeat), 10)
	body = append(body, '}')
	if err := p.nc.PublishRequest(apiPrefix+"CONSUMER.MSG.NEXT."+p.stream+"."+p.consumer, p.inbox, body); err != nil {
		return
	}
	if p.outstanding == 0 {
		p.heard = time.Now() // the watchdog counts from the first request
	}
	p.outstanding += n
}

func (p *puller) dispatch(inbox string, m *nats.Msg) {
	status := ""
	if len(m.Data) == 0 {
		status = m.Header.Get("Status")
	}
	p.mu.Lock()
	current := inbox == p.inbox
	if current {
		p.heard = time.Now()
	}
	if status == "" {
		if current {
			p.outstanding = max(0, p.outstanding-1)
			p.failures = 0
		}
		p.answers()
		p.mu.Unlock()
		p.receive(m)
		return
	}
	if current && (status == "100" || status == "408") {
		p.failures = 0
		p.answers()
	}
	if !current || status == "100" {
		p.mu.Unlock()
		return
	}
	left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	if err != nil {
		left = p.outstanding
	}
	p.outstanding = max(0, p.outstanding-left)
	p.mu.Unlock()
	switch status {
	case "408": // the request ran out
		p.poke()
	case "404", "409", "503":
		p.trouble(status, m.Header.Get("Description"))
	default:
		p.troubled(nil, status, m.Header.Get("Description"))
		p.fail(nil)
	}
}

// answers notes that the consumer is there. Called with mu held.
func (p *puller) answers() {
	if p.troubles > 0 {
		p.log.Info().Str("consumer", p.consumer).Int("failed", p.troubles).Msg("the consumer can be asked again")
		p.troubles = 0
	}
}

// troubled tells of an outage once, when it begins.
func (p *puller) troubled(err error, status, description string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.troubles++; p.troubles == 1 {
		p.log.Warn().Err(err).Str("status", status).Str("description", description).
			Str("consumer", p.consumer).Msg("the consumer cannot be asked")
	}
}

// trouble deals with a request that ended because of the consumer or its server.
func (p *puller) trouble(status, description string) {
	switch description {
	case "Batch Completed", "Leadership Change", "Message Size Exceeds MaxBytes", "Server Shutdown":
		p.fail(nil)
		return
	}
	// Consumer Deleted, Stream Deleted, or nobody answers for it.
	p.fail(func() {
		p.spawn(func() {
			if err := p.missing(); err != nil {
				p.troubled(err, status, description)
			}
			p.poke()
		})
	})
}

// drain ends asking, and waits until whatever the server had handed out by then was received.
func (p *puller) drain() <-chan struct{} {
	done := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.sub == nil {
		close(done)
		return done
	}
	var once sync.Once
	p.sub.SetClosedHandler(func(string) { once.Do(func() { close(done) }) })
	if err := p.sub.Drain(); err != nil {
		once.Do(func() { close(done) })
	}
	return done
}
