package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// rules are what a fault may excuse.
type rules struct {
	// overlap is how long after a success was settled another handler may still start. A server that was
	// killed hands out once more what it had handed out already, as if for the first time; a delivery that
	// was checked is not checked again for 100 ms; and what two processes write down may be late on a busy
	// machine. Zero where no server loses what it knows of deliveries: not one such start is allowed then.
	overlap time.Duration
	// frozen are workers that were stopped for a while: one may have been stopped between taking a job and
	// calling its handler, which nobody can help. Its settlement is refused.
	frozen []string
	// crashes is how many more attempts than a job's own may have been started.
	crashes int
}

// check waits until everything has come to rest, then checks the whole history.
//
// To rest: every job that is there has one document, an end; there are no wakes, no alarms; nothing waits for
// delivery or for an ack. That it is reached in time is the liveness check.
func (c *crew) check(r rules) {
	c.t.Helper()
	began := time.Now()
	var present map[string]job.Status
	c.until(func() (err error) {
		present, err = c.atRest()
		return err
	})
	rested := time.Since(began)
	if c.t.Failed() {
		return
	}
	c.sweepToRest()
	c.walk(present)
	if c.t.Failed() {
		return
	}
	v := &verdict{fault: c.t.Name(), acked: int(c.acked.Load()), recovery: c.recovery()}
	c.checkProducers(present, v)
	c.checkRecords(present, v)
	figures := c.checkLedger(present, r, v)
	for _, b := range v.said[:min(len(v.said), 20)] {
		c.t.Error(b)
	}
	if len(v.said) > 0 {
		c.t.Errorf("%d violations", len(v.said))
	}
	v.print()
	c.t.Logf("%d jobs, %d faults; %s; at rest after %s", len(present), len(c.faults), figures, rested.Round(time.Millisecond))
}

// sweepToRest does housekeeping as a new leader does it, until two rounds on end find nothing to repair.
func (c *crew) sweepToRest() {
	c.t.Helper()
	quiet, repaired := 0, 0
	c.until(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		report, err := c.store.Sweep(ctx)
		if err != nil {
			return err
		}
		quiet++
		if n := report.Repaired(); n > 0 {
			quiet, repaired = 0, repaired+n
		}
		if quiet < 2 {
			return fmt.Errorf("there was something to repair: %+v", report)
		}
		return nil
	})
	if repaired > 0 {
		c.t.Logf("at rest, housekeeping still repaired %+v", c.store.SweepTotals())
	}
}

// walk goes through the whole stream, message by message: one document for each job, an end, and nothing else. So it
// is with the stream's leader at once, and soon with whichever replica answers: one that is behind may still show what
// went before.
func (c *crew) walk(present map[string]job.Status) {
	c.t.Helper()
	if err := c.whole(present, c.fromLeader); err != nil {
		c.t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.js.Stream(ctx, stream)
	require.NoError(c.t, err)
	c.until(func() error {
		return c.whole(present, func(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
			return s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(">"))
		})
	})
}

// whole says what in a stream, read message by message, is not the one end of a job.
func (c *crew) whole(present map[string]job.Status, next func(context.Context, uint64) (*jetstream.RawStreamMsg, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	met := make(map[string]string)
	for seq := uint64(1); ; seq++ {
		m, err := next(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return err
		}
		seq = m.Sequence
		t := strings.Split(m.Subject, ".")
		if len(t) != 6 || t[1] != "job" || !job.Status(t[2]).Terminal() {
			return fmt.Errorf("left in the stream: %s at %d", m.Subject, seq)
		}
		if other := met[t[5]]; other != "" {
			return fmt.Errorf("job %s has two documents: %s and %s", t[5], other, m.Subject)
		}
		met[t[5]] = m.Subject
	}
	if len(met) != len(present) {
		return fmt.Errorf("%d jobs in the stream, want %d", len(met), len(present))
	}
	return nil
}

// fromLeader reads the first message at seq or above from the stream's leader, which the client library does only where
// a stream has no direct reads.
func (c *crew) fromLeader(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	m, err := c.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, seq))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Message struct {
			Subject string `json:"subject"`
			Seq     uint64 `json:"seq"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		return nil, err
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, jetstream.ErrMsgNotFound
	case answer.Error != nil:
		return nil, answer.Error
	}
	return &jetstream.RawStreamMsg{Subject: answer.Message.Subject, Sequence: answer.Message.Seq}, nil
}

// atRest reads what the stream holds. Its error says what is still going on.
func (c *crew) atRest() (map[string]job.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return nil, err
	}
	present := make(map[string]job.Status)
	for subject := range info.State.Subjects {
		t := strings.Split(subject, ".")
		if t[1] != "job" {
			return nil, fmt.Errorf("there is still %s", subject)
		}
		if len(t) != 6 {
			return nil, fmt.Errorf("foreign subject %s", subject)
		}
		status, id := job.Status(t[2]), t[5]
		if other, twice := present[id]; twice {
			return nil, fmt.Errorf("job %s is both %s and %s", id, other, status)
		}
		if !status.Terminal() {
			return nil, fmt.Errorf("job %s is still %s", id, status)
		}
		present[id] = status
	}
	if uint64(len(present)) != info.State.Msgs {
		return nil, fmt.Errorf("%d jobs in %d messages", len(present), info.State.Msgs)
	}
	for _, name := range []string{"ready-" + c.cfg.Queue, "wake-" + c.cfg.Queue} {
		consumer, err := c.js.Consumer(ctx, stream, name)
		if err != nil {
			return nil, fmt.Errorf("consumer %s: %w", name, err)
		}
		if i := consumer.CachedInfo(); i.NumAckPending != 0 || i.NumPending != 0 {
			return nil, fmt.Errorf("consumer %s: %d to be acked, %d pending", name, i.NumAckPending, i.NumPending)
		}
	}
	return present, nil
}

// checkProducers: what was acknowledged is there, as the end that it had to come to; what is there was asked
// for; nobody was told that a job existed before who was the first to ask. What had no answer may be there or
// not.
func (c *crew) checkProducers(present map[string]job.Status, v *verdict) {
	history := c.history()
	for id, a := range history {
		status, there := present[id]
		switch {
		case !there && a.acked:
			v.lose("job %s was acknowledged, and is lost", id)
		case there && status != a.ends:
			v.other("job %s ended %s, want %s", id, status, a.ends)
		case a.acked && !a.created && a.unknown == 0:
			v.other("job %s existed before anybody asked for it", id)
		}
	}
	for id := range present {
		if history[id] == nil {
			v.other("nobody asked for job %s", id)
		}
	}
}

// checkRecords: a success stands exactly once in its record, as the last attempt; attempts count from 1 without
// a gap, and are no more than allowed.
func (c *crew) checkRecords(present map[string]job.Status, v *verdict) {
	for id, status := range present {
		j, err := c.job(id)
		if err != nil {
			v.other("job %s: %v", id, err)
			continue
		}
		if j.Status != status {
			v.other("job %s: read as %s, stored as %s", id, j.Status, status)
		}
		if j.Attempts > j.MaxAttempts || j.Attempts < 1 {
			v.other("job %s: %d attempts of %d", id, j.Attempts, j.MaxAttempts)
		}
		succeeded := 0
		for i, a := range j.History {
			if a.Status == job.AttemptSucceeded {
				succeeded++
			}
			if a.Attempt != i+1 {
				v.other("job %s: attempt %d is the %d. of its history", id, a.Attempt, i+1)
			}
		}
		if len(j.History) != j.Attempts {
			v.other("job %s: %d attempts, %d in its history", id, j.Attempts, len(j.History))
		}
		last := j.History[max(0, len(j.History)-1):]
		if want := status == job.Succeeded; want != (succeeded == 1) || want && last[0].Status != job.AttemptSucceeded {
			v.other("job %s: %s with %d successes in its history", id, status, succeeded)
		}
	}
}

// checkLedger: a job's end was settled at most once, by the worker that its record names; no handler started
// after that; every success in a record was a handler's; nobody started a job more often than allowed.
func (c *crew) checkLedger(present map[string]job.Status, r rules, v *verdict) string {
	byJob := make(map[string][]entry)
	starts, lost, refused, overlaps := 0, 0, 0, 0
	for _, e := range c.account.all() {
		switch e.Event {
		case eventStart:
			starts++
		case eventLost:
			lost++
		case eventRefused:
			refused++
		}
		if e.Job != "" {
			byJob[e.Job] = append(byJob[e.Job], e)
		}
	}
	for id, es := range byJob {
		slices.SortStableFunc(es, func(a, b entry) int { return cmp.Compare(a.At, b.At) })
		if present[id] == "" {
			v.lose("job %s ran, and is not there", id)
			continue
		}
		j, err := c.job(id)
		if err != nil {
			v.other("job %s: %v", id, err)
			continue
		}
		var end *entry
		started, worked := 0, false
		for _, e := range es {
			switch {
			case e.Event == eventStart:
				started++
				if end == nil {
					break
				}
				after := e.At - end.At
				overlaps++
				if after > r.overlap && !slices.Contains(r.frozen, e.Worker) {
					v.rerun("job %s: %s started attempt %d %s after %s had settled attempt %d as %s",
						id, e.Worker, e.Attempt, after, end.Worker, end.Attempt, end.Status)
				}
			case e.Event == eventDone && e.Error == "" && e.Worker == j.WorkerID:
				worked = true
			case e.Event == eventSettled && job.Status(e.Status).Terminal():
				if end != nil {
					v.double("job %s: settled twice: by %s (attempt %d) and by %s (attempt %d)",
						id, end.Worker, end.Attempt, e.Worker, e.Attempt)
				}
				if e.Worker != j.WorkerID || e.Status != string(j.Status) {
					v.other("job %s: %s settled it as %s, its record says %s by %s", id, e.Worker, e.Status, j.Status, j.WorkerID)
				}
				end = &e
			}
		}
		if j.Status == job.Succeeded && !worked {
			v.other("job %s: its record says that %s succeeded, whose ledger does not", id, j.WorkerID)
		}
		if started > j.MaxAttempts+r.crashes {
			v.other("job %s: started %d times, allowed are %d attempts", id, started, j.MaxAttempts)
		}
	}
	for id := range present {
		if byJob[id] == nil {
			v.other("job %s ended without having run", id)
		}
	}
	unknown := 0
	for _, a := range c.history() {
		unknown += a.unknown
	}
	return fmt.Sprintf("%d starts, %d settlements lost to others, %d refused, %d overlaps, %d enqueues without an answer",
		starts, lost, refused, overlaps, unknown)
}
