package faketime

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

// A heartbeat may be on its way when its attempt is settled, and arrive when the job waits for its next one. It moves
// nothing: the instant of a retry is the job's, and no matter of what the server knows of deliveries.
func TestALateHeartbeatMovesNoRetry(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		const lease, wait = 30 * time.Second, 10 * time.Minute
		late := w.connect()
		var mu sync.Mutex
		replies := make(map[string]bool) // on which deliveries were said to be in progress
		_, err := late.Subscribe("$JS.ACK.>", func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			if string(m.Data) == "+WPI" {
				replies[m.Subject] = true
			}
		})
		require.NoError(t, err)
		require.NoError(t, late.Flush())
		failed := make(chan time.Time, 1)
		h := w.work("w", w.open(w.connect()), func(_ context.Context, j *job.Job) (any, error) {
			if j.Attempts > 1 {
				return nil, nil
			}
			time.Sleep(3 * lease)
			failed <- time.Now()
			return nil, errors.New("no luck")
		}, func(c *worker.Config) { c.Lease = lease })
		key := w.enqueue(job.Spec{Retry: &job.Retry{Base: wait, Max: wait}})
		at := <-failed
		time.Sleep(moment) // for its outcome to be written
		mu.Lock()
		require.NotEmpty(t, replies, "no heartbeat was heard")
		mu.Unlock()
		for range 5 {
			mu.Lock()
			for r := range replies {
				require.NoError(t, late.Publish(r, []byte("+WPI")))
			}
			mu.Unlock()
			require.NoError(t, late.Flush())
			time.Sleep(lease)
			require.Equal(t, job.Pending, w.get(key).Status)
			require.Len(t, h.began(), 1, "it was begun again too early")
		}
		j := w.ended(key)
		require.Equal(t, job.Succeeded, j.Status)
		require.Equal(t, 2, j.Attempts)
		began := h.began()
		require.Len(t, began, 2)
		within(t, at.Add(wait), began[1], 31*time.Second) // a retry is spread over half a minute
	})
}
