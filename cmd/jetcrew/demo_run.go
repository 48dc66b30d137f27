package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	probes     = 50
	pollEvery  = 2 * time.Millisecond
	askEvery   = 300 * time.Millisecond // for ends that no event told of
	askAtOnce  = 200
	quietAfter = demoLease + time.Second // in which a success would be run again, if it were
)

// demo is one run of it.
type demo struct {
	app    *app
	client *client.Client
	plan   []planned
	setup  workerSetup

	mu   sync.Mutex
	ends map[string]int // by id, as events told
}

func (d *demo) run(ctx context.Context) (*demoSummary, error) {
	sub, err := d.watch()
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection is closed next
	if err := d.enqueue(ctx); err != nil {
		return nil, err
	}
	s := &demoSummary{Statuses: make(map[job.Status]int), Jobs: len(d.plan)}
	start := time.Now()
	first, err := startChild(d.setup)
	if err != nil {
		return nil, err
	}
	defer first.kill()
	bar := d.app.newProgress(len(d.plan), "jobs")
	defer bar.stop()
	if s.KilledAt, err = d.until(ctx, first, bar, (2*len(d.plan)+4)/5); err != nil {
		return nil, err
	}
	first.kill()
	bar.printf("worker %d killed when %d of %d jobs had ended; starting another\n", first.pid(), s.KilledAt, len(d.plan))
	second, err := startChild(d.setup)
	if err != nil {
		return nil, err
	}
	defer second.kill()
	if _, err = d.until(ctx, second, bar, len(d.plan)); err != nil {
		return nil, err
	}
	s.Elapsed = time.Since(start)
	bar.stop()
	quiet := time.After(quietAfter)
	sent, err := d.probe(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-quiet:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := second.stop(ctx); err != nil {
		return nil, fmt.Errorf("the second worker did not stop well: %w", err)
	}
	return s, d.judge(ctx, s, first.pid(), sent)
}

// watch counts the ends that events tell of.
func (d *demo) watch() (*nats.Subscription, error) {
	d.ends = make(map[string]int)
	sub, err := d.client.Conn().Subscribe("jetcrew.event.*.default."+demoSpace+".*", func(m *nats.Msg) {
		tokens := strings.Split(m.Subject, ".")
		if job.Status(tokens[2]).Terminal() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.ends[tokens[5]]++
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch events: %w", err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, fmt.Errorf("watch events: %w", err)
	}
	return sub, d.client.Conn().Flush()
}

// enqueue puts every job in, and the message that is none straight on a ready subject, as any NATS client
// could.
func (d *demo) enqueue(ctx context.Context) error {
	var specs []job.Spec
	for _, p := range d.plan {
		if p.raw != "" {
			reply, err := d.client.Conn().RequestWithContext(ctx, "jetcrew.job.ready.default."+demoSpace+"."+p.spec.ID, []byte(p.raw))
			if err != nil {
				return fmt.Errorf("publish the bad message: %w", err)
			}
			var ack struct {
				Error json.RawMessage `json:"error"`
			}
			if err := json.Unmarshal(reply.Data, &ack); err != nil || ack.Error != nil {
				return fmt.Errorf("publish the bad message: the server answers %s", reply.Data)
			}
			continue
		}
		specs = append(specs, p.spec)
	}
	out, err := d.client.EnqueueMany(ctx, specs)
	if err != nil {
		return err
	}
	for _, e := range out {
		if !e.Created {
			return fmt.Errorf("enqueue %s: a new store has it already", e.Key)
		}
	}
	return nil
}

// until waits for n jobs to have ended, and answers how many have. It fails if the worker ends first.
func (d *demo) until(ctx context.Context, worker *child, bar *progress, n int) (int, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last, changed := -1, time.Now()
	for {
		have := d.ended()
		bar.set(have)
		if have >= n {
			return have, nil
		}
		if have != last {
			last, changed = have, time.Now()
		}
		if time.Since(changed) > askEvery {
			if err := d.ask(ctx); err != nil {
				return have, err
			}
			changed = time.Now()
		}
		select {
		case <-tick.C:
		case <-worker.ended:
			return have, fmt.Errorf("the worker ended by itself: %w", errors.Join(worker.err, errors.New("see its log")))
		case <-ctx.Done():
			return have, fmt.Errorf("%d of %d jobs had ended: %w", have, len(d.plan), ctx.Err())
		}
	}
}

func (d *demo) ended() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ends)
}

// ask reads records of jobs whose end no event told of: the one who would have told was killed.
func (d *demo) ask(ctx context.Context) error {
	asked := 0
	for _, p := range d.plan {
		d.mu.Lock()
		_, known := d.ends[p.spec.ID]
		d.mu.Unlock()
		if known {
			continue
		}
		if asked++; asked > askAtOnce {
			return nil
		}
		j, err := d.client.Get(ctx, p.key())
		if errors.Is(err, job.ErrNotFound) {
			continue // a lost job is for the judge
		}
		if err != nil {
			return err
		}
		if j.Status.Terminal() {
			d.mu.Lock()
			d.ends[p.spec.ID] += 0
			d.mu.Unlock()
		}
	}
	return nil
}

func (p *planned) key() job.Key {
	return job.Key{Queue: job.DefaultQueue, Space: p.spec.Space, ID: p.spec.ID}
}

// probe enqueues jobs one at a time to an idle worker, and answers when each was sent.
func (d *demo) probe(ctx context.Context) (map[string]time.Time, error) {
	sent := make(map[string]time.Time, probes)
	for i := range probes {
		id := fmt.Sprintf("probe-%03d", i)
		sent[id] = time.Now()
		if _, err := d.client.EnqueueSpec(ctx, job.Spec{ID: id, Space: demoSpace, Type: "demo.probe"}); err != nil {
			return nil, err
		}
		for d.endsOf(id) == 0 {
			if err := wait(ctx, pollEvery); err != nil {
				return nil, fmt.Errorf("%s did not end: %w", id, err)
			}
		}
	}
	return sent, nil
}

func (d *demo) endsOf(id string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ends[id]
}

// judge reads everything back and fills in the summary.
func (d *demo) judge(ctx context.Context, s *demoSummary, killed int, sent map[string]time.Time) error {
	lines, err := readLedger(d.setup.Ledger)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(d.setup.Root)
	if err != nil {
		return fmt.Errorf("open the demo's directory: %w", err)
	}
	defer root.Close()
	c := newCheck(lines, killed)
	c.again = func(path string) (digest, error) { return digestFile(ctx, root, path) }
	for i := range d.plan {
		p := &d.plan[i]
		j, err := d.client.Get(ctx, p.key())
		if err != nil && !errors.Is(err, job.ErrNotFound) {
			return err
		}
		c.judge(p, j, d.endsOf(p.spec.ID))
		if j == nil {
			continue
		}
		s.Statuses[j.Status]++
		s.Attempts += j.Attempts
		for _, h := range j.History {
			switch {
			case h.Status == job.AttemptLost:
				s.Lost++
			case h.Status == job.AttemptFailed && j.Status == job.Succeeded:
				s.Retried++
			}
		}
	}
	var pickups []time.Duration
	for _, e := range lines {
		if at, ok := sent[e.id]; ok && e.what == ledgerStart {
			pickups = append(pickups, e.at.Sub(at))
		}
	}
	slices.Sort(pickups)
	s.Probes = len(pickups)
	if s.Probes > 0 {
		s.PickupP50, s.PickupP99 = pickups[s.Probes/2], pickups[min(s.Probes*99/100, s.Probes-1)]
	}
	s.Problems, s.Changed, s.Digests = c.problems, c.changed, c.right
	return nil
}
