package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// rest waits until everything has come to rest. With its error it answers the ends that were there all the same, if
// every job had one.
func (c *crew) rest(within time.Duration) (present map[string]job.Status, err error) {
	for end := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		if present, err = c.atRest(); err == nil || time.Now().After(end) {
			return present, err
		}
	}
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
		status := job.Status(t[2])
		id, err := unescape(t[5])
		if err != nil {
			return nil, fmt.Errorf("foreign subject %s: %w", subject, err)
		}
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
			return present, fmt.Errorf("consumer %s: %w", name, err)
		}
		if i := consumer.CachedInfo(); i.NumAckPending != 0 || i.NumPending != 0 {
			return present, fmt.Errorf("consumer %s: %d to be acked, %d pending", name, i.NumAckPending, i.NumPending)
		}
	}
	return present, nil
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
func (c *crew) walk(present map[string]job.Status) error {
	c.t.Helper()
	if err := c.whole(present, c.fromLeader); err != nil {
		return err
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
	return nil
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
		c.stored(t[5], m.Time)
	}
	if len(met) != len(present) {
		return fmt.Errorf("%d jobs in the stream, want %d", len(met), len(present))
	}
	return nil
}

// stored notes when a job's end was stored, by the ledgers' clock. The servers run on this machine, and so by its clock.
func (c *crew) stored(token string, at time.Time) {
	if id, err := unescape(token); err == nil {
		c.ends[id] = monotonic() - time.Since(at)
	}
}

// unescape is the id that a subject's token stands for.
func unescape(token string) (string, error) {
	return url.PathUnescape(strings.ReplaceAll(token, "=", "%"))
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
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Time    time.Time `json:"time"`
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
	return &jetstream.RawStreamMsg{Subject: answer.Message.Subject, Sequence: answer.Message.Seq, Time: answer.Message.Time}, nil
}
