package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// presenceBatch is how many entries one read of presence takes.
const presenceBatch = 500

// maxOddities bounds what is remembered of entries that were reported.
const maxOddities = 1000

// workerReader reads the presence of workers. (The client library's ways to list a bucket make a consumer each.)
type workerReader struct {
	*reader
	prefix string // of the entries' subjects

	mu       sync.Mutex
	oddities map[string]bool // entries that cannot be read, and that were reported
}

func newWorkerReader(nc *nats.Conn, bucket string) (*workerReader, error) {
	r, err := newReader(nc, "KV_"+bucket)
	if err != nil {
		return nil, err
	}
	return &workerReader{reader: r, prefix: "$KV." + bucket + ".", oddities: make(map[string]bool)}, nil
}

// presences reads the entries of one queue, named by its token, or of all ("*"). An entry that cannot be read is left
// out, and reported once.
func (r *workerReader) presences(ctx context.Context, queueToken string, log zerolog.Logger) ([]Presence, error) {
	found := make(map[string]Presence)
	// Up the sequences: an entry that is written anew meanwhile is met again at its later place.
	for from := uint64(1); ; {
		msgs, left, err := r.batch(ctx, from, r.prefix+"*."+queueToken, presenceBatch)
		if err != nil {
			return nil, fmt.Errorf("reading the presence of workers: %w", err)
		}
		for _, m := range msgs {
			from = m.seq + 1
			key := strings.TrimPrefix(m.subject, r.prefix)
			if header(m.header, "KV-Operation") != "" || len(m.header["Nats-Marker-Reason"]) > 0 {
				delete(found, key) // it was withdrawn, or has expired
				continue
			}
			var p Presence
			err := job.Decode(m.data, &p)
			if err == nil && (p.Worker == "" || p.Queue == "" || presenceKey(p.Worker, p.Queue) != key) {
				err = errors.New("it names another worker or queue")
			}
			if err != nil {
				delete(found, key)
				r.odd(key, err, log)
				continue
			}
			found[key] = p
		}
		if len(msgs) == 0 || left == 0 {
			break
		}
	}
	out := make([]Presence, 0, len(found))
	for _, p := range found {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Presence) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Queue, b.Queue))
	})
	return out, nil
}

// odd reports an entry that is none.
func (r *workerReader) odd(key string, err error, log zerolog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.oddities[key] || len(r.oddities) >= maxOddities {
		return
	}
	r.oddities[key] = true
	log.Warn().Err(err).Str("key", key).Msg("an entry among the workers' presence that is none; leaving it out")
}

// alive reports whether the worker has said so within a lease. One that does not say by which lease it goes is
// believed: its entry goes by itself.
func (p *Presence) alive(now time.Time) bool {
	return p.Lease == 0 || !now.After(p.BeatAt.Add(p.Lease))
}

// present are the workers that are alive, of one queue or of all ("*").
func (s *Store) present(ctx context.Context, queueToken string) ([]Presence, error) {
	all, err := s.workers.presences(ctx, queueToken, s.log)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	return slices.DeleteFunc(all, func(p Presence) bool { return !p.alive(now) }), nil
}

// Workers are those that are alive. See job.Operator.
func (s *Store) Workers(ctx context.Context) ([]job.Worker, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	all, err := s.present(ctx, "*")
	if err != nil {
		return nil, err
	}
	return mergeWorkers(all), nil
}

// mergeWorkers makes one worker of its entries, which stand together.
func mergeWorkers(all []Presence) []job.Worker {
	workers := []job.Worker{}
	for i := range all {
		p := &all[i]
		if len(workers) == 0 || workers[len(workers)-1].ID != p.Worker {
			workers = append(workers, job.Worker{
				ID: p.Worker, Host: p.Host, PID: p.PID, Version: p.Version, StartedAt: p.StartedAt, BeatAt: p.BeatAt,
			})
		}
		w := &workers[len(workers)-1]
		if p.StartedAt.Before(w.StartedAt) {
			w.StartedAt = p.StartedAt
		}
		if p.BeatAt.After(w.BeatAt) {
			w.BeatAt = p.BeatAt
		}
		w.Queues = append(w.Queues, p.queue())
	}
	return workers
}

func (p *Presence) queue() job.WorkerQueue {
	q := job.WorkerQueue{Queue: p.Queue, Slots: p.Slots, Lease: p.Lease, Running: len(p.Claims), Types: p.Types}
	for _, c := range p.Claims {
		if c.ID != "" {
			q.Jobs = append(q.Jobs, job.WorkerJob{Space: c.Space, ID: c.ID, Type: c.Type, Since: c.Since})
		}
	}
	slices.SortFunc(q.Jobs, func(a, b job.WorkerJob) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Space, b.Space), cmp.Compare(a.ID, b.ID))
	})
	return q
}
