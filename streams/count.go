package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// countedStates have a consumer each that nobody pulls from: what it has pending is exactly what is stored, through
// expiry, overwriting and deletion, and costs nothing to ask for. What is ready is counted by the queues' own
// consumers. A record that was deleted is counted by nobody.
var countedStates = [...]state{stateDue, stateRunning, stateSucceeded, stateFailed, stateDead, stateCancelled}

const (
	readyPrefix = "ready-"
	countPrefix = "count-"
)

func (n names) countConsumer(s state) string { return countPrefix + string(s) }

// ensureCounts finds or makes the consumers that count.
func (s *Store) ensureCounts(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	errs := make([]error, len(countedStates))
	var wg sync.WaitGroup
	for i, st := range countedStates {
		wg.Go(func() {
			_, errs[i] = s.ensureConsumer(ctx, jetstream.ConsumerConfig{
				Durable:       s.names.countConsumer(st),
				Name:          s.names.countConsumer(st),
				Description:   fmt.Sprintf("jetcrew: its pending messages are the jobs that are %s; not to be pulled from", st),
				FilterSubject: s.names.stateFilter(st),
				DeliverPolicy: jetstream.DeliverAllPolicy,
				AckPolicy:     jetstream.AckExplicitPolicy,
				MaxDeliver:    -1,
			})
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Count counts the jobs. See job.Operator.
func (s *Store) Count(ctx context.Context) (*job.Counts, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	infos, err := s.consumers(ctx)
	if err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	counts, missing := s.names.count(infos)
	if missing != "" && s.cfg.Manage == ManageCreate { // somebody deleted it
		if err := s.ensureCounts(ctx); err != nil {
			return nil, fmt.Errorf("count: %w", err)
		}
		if infos, err = s.consumers(ctx); err != nil {
			return nil, fmt.Errorf("count: %w", err)
		}
		counts, missing = s.names.count(infos)
	}
	if missing != "" {
		return nil, fmt.Errorf("count: %w: consumer %s is missing: whoever may make it has to open the store once (jetcrew setup)", ErrTopology, missing)
	}
	return counts, nil
}

// count reads the counts off the consumers, or names one that is missing.
func (n names) count(infos []*jetstream.ConsumerInfo) (counts *job.Counts, missing string) {
	counts = &job.Counts{Queues: make(map[string]job.QueueCounts)}
	seen := make(map[state]int)
	for _, info := range infos {
		if st, ok := strings.CutPrefix(info.Name, countPrefix); ok && info.Config.FilterSubject == n.stateFilter(state(st)) {
			seen[state(st)] = int(info.NumPending)
			continue
		}
		if queue, ok := n.queueOf(info); ok {
			q := job.QueueCounts{Ready: int(info.NumPending), Running: info.NumAckPending}
			counts.Queues[queue] = q
			counts.Ready += q.Ready
			counts.Running += q.Running
		}
	}
	for _, st := range countedStates {
		if _, ok := seen[st]; !ok {
			return nil, n.countConsumer(st)
		}
	}
	counts.Due = seen[stateDue]
	counts.Succeeded = seen[stateSucceeded]
	counts.Failed = seen[stateFailed]
	counts.Dead = seen[stateDead]
	counts.Cancelled = seen[stateCancelled]
	return counts, ""
}

// queueOf tells whether a consumer is a queue's ready consumer, and of which queue. A name that stands hashed, and is
// not told by the consumer, is told as its token.
func (n names) queueOf(info *jetstream.ConsumerInfo) (queue string, ok bool) {
	token, ok := strings.CutPrefix(info.Name, readyPrefix)
	if !ok || info.Config.FilterSubject != n.job(stateReady, token+".>") {
		return "", false
	}
	if q := info.Config.Metadata[metaQueue]; q != "" && queueToken(q) == token {
		return q, true
	}
	if q, err := unescape(token); err == nil && queueToken(q) == token {
		return q, true
	}
	return token, true
}

// consumers lists the stream's consumers, in as few requests as the server allows. One that counts or hands out, and
// that nobody answered for, is an error: the answer would not be exact.
func (s *Store) consumers(ctx context.Context) ([]*jetstream.ConsumerInfo, error) {
	for try := 0; ; try++ {
		infos, err := s.consumersOnce(ctx)
		if err == nil || errors.Is(err, jetstream.ErrStreamNotFound) || s.nc.IsClosed() || pause(ctx, try) != nil {
			return infos, err
		}
	}
}

func (s *Store) consumersOnce(ctx context.Context) ([]*jetstream.ConsumerInfo, error) {
	var all []*jetstream.ConsumerInfo
	seen := make(map[string]bool)
	for offset := 0; ; {
		page, err := s.consumersFrom(ctx, offset)
		if err != nil {
			return nil, err
		}
		for _, name := range page.Missing {
			if strings.HasPrefix(name, readyPrefix) || strings.HasPrefix(name, countPrefix) {
				return nil, fmt.Errorf("nobody answered for consumer %s", name)
			}
		}
		for _, info := range page.Consumers {
			if !seen[info.Name] { // the pages shift when one is made meanwhile
				seen[info.Name] = true
				all = append(all, info)
			}
		}
		offset += len(page.Consumers) + len(page.Missing)
		if len(page.Consumers)+len(page.Missing) == 0 || offset >= page.Total {
			return all, nil
		}
	}
}

// consumerPage is the server's answer to a listing of consumers.
type consumerPage struct {
	Total     int                       `json:"total"`
	Consumers []*jetstream.ConsumerInfo `json:"consumers"`
	Missing   []string                  `json:"missing"` // in a cluster: those that nobody answered for
	Error     *jetstream.APIError       `json:"error"`
}

func (s *Store) consumersFrom(ctx context.Context, offset int) (*consumerPage, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body := fmt.Appendf(nil, `{"offset":%d}`, offset)
	msg, err := s.nc.RequestWithContext(ctx, apiPrefix+"CONSUMER.LIST."+s.names.stream(), body)
	if err != nil {
		return nil, fmt.Errorf("listing consumers: %w", silence(err))
	}
	var page consumerPage
	if err := json.Unmarshal(msg.Data, &page); err != nil {
		return nil, fmt.Errorf("listing consumers: %w", err)
	}
	if page.Error != nil {
		if page.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound {
			return nil, fmt.Errorf("listing consumers: %w", jetstream.ErrStreamNotFound)
		}
		return nil, fmt.Errorf("listing consumers: %w", page.Error)
	}
	return &page, nil
}

// silence says what no answer may mean: a denied permission looks like a time-out.
func silence(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) {
		return fmt.Errorf("no answer (is it permitted to this user?): %w", err)
	}
	return err
}
