package streams

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Presence is what a worker says of itself at each heartbeat, one entry per queue. It counts for a lease at a
// time.
type Presence struct {
	Worker    string                   `json:"worker"`
	Queue     string                   `json:"queue"`
	Host      string                   `json:"host,omitzero"`
	PID       int                      `json:"pid"`
	Version   string                   `json:"version,omitzero"`
	Slots     int                      `json:"slots"`
	Lease     time.Duration            `json:"lease,omitzero"` // by which it goes; older programs do not say
	StartedAt time.Time                `json:"startedAt"`
	BeatAt    time.Time                `json:"beatAt"`
	Types     []string                 `json:"types,omitzero"`  // that it has handlers for; older programs do not say
	Claims    map[string]PresenceClaim `json:"claims,omitzero"` // by the name of the claim
}

// PresenceClaim is a claim whose job a worker runs now.
type PresenceClaim struct {
	Space string    `json:"space,omitzero"` // left out, as is ID, where they are too many
	ID    string    `json:"id,omitzero"`
	Type  string    `json:"type,omitzero"`  // left out, as is Since, where there are more than a few
	Since time.Time `json:"since,omitzero"` // when the attempt began
	Until time.Time `json:"until"`          // for how long this report counts
}

// namedClaims is how many claims are reported with the names of their jobs: with longer lists only what counts is
// said, so that all of them fit into one message.
const (
	namedClaims = 500
	fewClaims   = 200 // are reported with all there is
	namedTypes  = 100 // of those that it has handlers for
)

func presenceKey(worker, queue string) string { return escape(worker) + "." + queueToken(queue) }

// beatPresence writes this consumer's presence.
func (c *consumer) beatPresence(ctx context.Context, claims []*claim) error {
	host, _ := os.Hostname() // only for people to read
	now := job.Millis(c.s.Now())
	p := Presence{
		Worker: c.cfg.WorkerID, Queue: c.cfg.Queue, Host: host, PID: os.Getpid(), Version: c.cfg.Version,
		Slots: c.cfg.Slots, StartedAt: job.Millis(c.started), BeatAt: now, Types: c.cfg.Types[:min(len(c.cfg.Types), namedTypes)],
	}
	p.Lease = c.lease()
	until := now.Add(p.Lease)
	for _, cl := range claims {
		cl.mu.Lock()
		if cl.claimed {
			if p.Claims == nil {
				p.Claims = make(map[string]PresenceClaim)
			}
			report := PresenceClaim{Until: until}
			if len(claims) <= namedClaims {
				report.Space, report.ID = cl.rec.Job.Space, cl.rec.Job.ID
			}
			if len(claims) <= fewClaims {
				report.Type, report.Since = cl.rec.Job.Type, cl.started
			}
			p.Claims[cl.base.Claim] = report
		}
		cl.mu.Unlock()
	}
	body, err := job.Encode(p)
	if err != nil {
		return err
	}
	m := &nats.Msg{
		Subject: "$KV." + c.s.names.workersBucket() + "." + presenceKey(c.cfg.WorkerID, c.cfg.Queue),
		Data:    body,
		Header:  nats.Header{jetstream.MsgTTLHeader: []string{seconds(p.Lease + time.Second)}},
	}
	_, err = c.s.send(ctx, m)
	if retryable(err) && c.ctx.Err() == nil {
		// The bucket may have been deleted by hand; the next heartbeat needs it.
		ctx, cancel := context.WithTimeout(c.ctx, requestTimeout)
		defer cancel()
		return errors.Join(err, c.s.ensureWorkers(ctx))
	}
	return err
}

// appear writes the first presence. It tries on for a while: what Open has just made may not be reachable from
// this server yet, and a worker should not fail to start for that.
func (c *consumer) appear(ctx context.Context) error {
	for try := 0; ; try++ {
		err := c.beatPresence(ctx, nil)
		if err == nil || !retryable(err) || pause(ctx, try) != nil {
			return err
		}
	}
}

// withdrawPresence removes this consumer's entry.
func (c *consumer) withdrawPresence() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := c.s.kv.Purge(ctx, presenceKey(c.cfg.WorkerID, c.cfg.Queue), jetstream.PurgeTTL(time.Minute))
	if err != nil {
		c.log.Debug().Err(err).Msg("presence not withdrawn; it goes by itself")
	}
}

// reported answers until when a worker says that it runs this very claim; the zero time if none says so.
func (s *Store) reported(ctx context.Context, n *record) (time.Time, error) {
	if n.Job.WorkerID == "" || n.Claim == "" {
		return time.Time{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	entry, err := s.kv.Get(ctx, presenceKey(n.Job.WorkerID, n.Job.Queue))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	var p Presence
	if err := job.Decode(entry.Value(), &p); err != nil {
		return time.Time{}, nil //nolint:nilerr // what cannot be read reports nothing
	}
	return p.Claims[n.Claim].Until, nil
}
