package chaos

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/streams"
)

func TestConsumerDeletedUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	t.Parallel()
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: 2 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 10*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, name := range []string{"ready-default", "wake-default", "ready-default"} {
		c.progress(60)
		hands[len(c.faults)%2].busy(1)
		require.NoError(t, c.js.DeleteConsumer(ctx, stream, name))
		c.faulted()
	}
	c.progress(60)
	c.finish()
	// A consumer that was made anew hands out as if for the first time what the old one had handed out.
	c.check(amnesia)
	made, err := c.js.Consumer(ctx, stream, "ready-default")
	require.NoError(t, err)
	require.Equal(t, c.cfg.Lease, made.CachedInfo().Config.AckWait, "the lease of the consumer that was made anew")
	c.dismiss(hands...)
}

// A stream that somebody deleted is not made again: an empty one would hide that jobs are gone.
func TestStreamDeletedUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	t.Parallel()
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: time.Second})
	w := c.work("w1")
	c.put(20, "before", input{})
	c.put(4, "held", input{Until: c.flag("never")})
	w.busy(4)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, c.js.DeleteStream(ctx, stream))

	w.says("the consumer cannot be asked")
	w.says("heartbeats fail")
	asking, done := context.WithTimeout(ctx, 2*time.Second)
	defer done()
	after := mix(c.cfg.Queue, "after", 0)
	_, err := c.store.Enqueue(asking, after.spec)
	require.Error(t, err, "a job was taken without a stream to keep it")
	nc, err := connect(c.cfg.URL)
	require.NoError(t, err)
	defer nc.Close()
	_, err = streams.Open(ctx, nc, streams.Config{Lease: c.cfg.Lease})
	require.ErrorIs(t, err, streams.ErrTopology)
	_, err = c.js.Stream(ctx, stream)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	select {
	case <-w.Done():
		t.Fatal("the worker has ended")
	default:
	}
	w.Signal(syscall.SIGTERM)
	w.Wait(patience)
}

// says waits for a line of a worker's log.
func (h *hand) says(text string) {
	h.crew.t.Helper()
	deadline := time.After(patience)
	for _, line := range h.said {
		if strings.Contains(line, text) {
			return
		}
	}
	for {
		select {
		case line, ok := <-h.Lines():
			if !ok {
				h.crew.t.Fatalf("worker %s ended without saying %q", h.id, text)
			}
			h.said = append(h.said, line)
			if strings.Contains(line, text) {
				return
			}
		case <-deadline:
			h.crew.t.Fatalf("worker %s has not said %q", h.id, text)
		}
	}
}

// unacked is how many jobs workers hold.
func (c *crew) unacked() int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	consumer, err := c.js.Consumer(ctx, stream, "ready-"+c.cfg.Queue)
	if err != nil {
		c.t.Error(fmt.Errorf("reading the consumer: %w", err))
		return 0
	}
	return consumer.CachedInfo().NumAckPending
}
