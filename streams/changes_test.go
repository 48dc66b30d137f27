package streams

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// TestChangesAreWhatIsLeftOfThem: each way of reading finds every job's newest change, in the order of the sequences, and
// no follower that is behind hides one.
func TestChangesAreWhatIsLeftOfThem(t *testing.T) {
	everywhere(t, map[string]func(t *testing.T, p *place){"changes": func(t *testing.T, p *place) {
		n := p.open(t)
		queue := queueName(t)
		states := make(map[string]job.Status)
		for i := range 40 {
			id := strconv.Itoa(i)
			s := spec(queue, id)
			states[id] = job.Ready
			if i%4 == 1 {
				s.Delay, states[id] = time.Hour, job.Due // which has an alarm among the sequences, too
			}
			key := n.enqueue(s)
			if i%4 == 2 {
				_, err := n.Cancel(t.Context(), key)
				require.NoError(t, err)
				states[id] = job.Cancelled
			}
			if i%4 == 3 {
				_, err := n.Delete(t.Context(), key)
				require.NoError(t, err)
				states[id] = Deleted
			}
		}
		first, last, err := n.Bounds(t.Context())
		require.NoError(t, err)
		require.Positive(t, first)
		read := func(req ChangesRequest, by func(ChangesRequest, func(Change) error) error) map[string]job.Status {
			got, before := make(map[string]job.Status), uint64(0)
			require.NoError(t, by(req, func(c Change) error {
				require.Greater(t, c.Seq, before)
				require.GreaterOrEqual(t, c.Seq, req.From)
				require.Less(t, c.Seq, req.To)
				before = c.Seq
				got[c.Job.ID] = c.State
				return nil
			}))
			return got
		}
		singly := func(r ChangesRequest, fn func(Change) error) error { return n.Changes(t.Context(), r, fn) }
		filtered := func(r ChangesRequest, fn func(Change) error) error {
			return n.changesByFilter(t.Context(), r, fn)
		}
		for _, by := range []func(ChangesRequest, func(Change) error) error{singly, filtered} {
			require.Equal(t, states, read(ChangesRequest{Queue: queue, From: 1, To: last + 1}, by))
			require.Equal(t, map[string]job.Status{"7": Deleted}, read(ChangesRequest{Queue: queue, Space: "default", ID: "7", From: 1, To: last + 1}, by))
			require.Empty(t, read(ChangesRequest{Queue: queue, Space: "other", From: 1, To: last + 1}, by))
			require.Empty(t, read(ChangesRequest{Queue: queue, From: last + 1, To: last + 1}, by))
		}
		for i, by := range []func(ChangesRequest, func(Change) error) error{singly, filtered} {
			_, last, err := n.Bounds(t.Context())
			require.NoError(t, err)
			fresh := n.enqueue(spec(queue, "fresh"+strconv.Itoa(i)))
			require.Equal(t, map[string]job.Status{fresh.ID: job.Ready}, read(ChangesRequest{Queue: queue, From: last + 1, To: last + 2}, by), "at once")
		}
	}})
}
