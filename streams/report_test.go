package streams

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// held enqueues a job and claims it.
func held(t *testing.T, n *node, id string) (*consumer, *claim) {
	t.Helper()
	_, err := n.Enqueue(t.Context(), job.Spec{ID: id, Type: "t"})
	require.NoError(t, err)
	c, err := n.Consume(t.Context(), job.ConsumerConfig{WorkerID: "w-" + id, Slots: 1, Lease: lease})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	cl, err := c.Claim(t.Context())
	require.NoError(t, err)
	return c.(*consumer), cl.(*claim)
}

func TestReportsAreToldLive(t *testing.T) {
	n := server(t).open(t)
	_, cl := held(t, n, "a")
	told := make(chan *nats.Msg, 1000)
	sub, err := n.nc.ChanSubscribe("jetcrew.event.*.default.default.a", told)
	require.NoError(t, err)
	require.NoError(t, n.nc.Flush())
	cl.ReportProgress(12.5, "pages")
	cl.ReportLog("hello\nworld")

	m := <-told
	require.Equal(t, "jetcrew.event.progress.default.default.a", m.Subject)
	var mark job.Mark
	require.NoError(t, job.Decode(m.Data, &mark))
	require.InDelta(t, 12.5, mark.Done, 0)
	m = <-told
	require.Equal(t, "jetcrew.event.log.default.default.a", m.Subject)
	var lines []job.LogLine
	require.NoError(t, job.Decode(m.Data, &lines))
	require.Equal(t, "world", lines[1].Text)

	// A flood is not told whole, and the record has its end.
	for i := range 100_000 {
		cl.ReportProgress(float64(i), "")
		cl.ReportLog("flood")
	}
	_, err = cl.Settle(t.Context(), job.Succeed(nil))
	require.NoError(t, err)
	require.NoError(t, n.nc.Flush())
	require.Less(t, len(told), cap(told))
	require.NoError(t, sub.Unsubscribe())
	j, err := n.Get(t.Context(), job.Key{ID: "a"})
	require.NoError(t, err)
	require.InDelta(t, 99_999, j.Progress.Done, 0)
	require.Len(t, j.Log, job.MaxLogLines)
}

// A claim that is written anew for its reports stays the same claim: a cancel flag survives, and so does the hold.
func TestReportsDoNotUndoACancelFlag(t *testing.T) {
	n := server(t).open(t)
	_, cl := held(t, n, "a")
	cl.writeClaim()
	n.requestCancel(job.Key{Queue: "default", Space: "default", ID: "a"})
	cl.ReportProgress(1, "")
	require.NoError(t, cl.saveReport(t.Context())) // its guard does not hold
	natstest.Eventually(t, soon, func() error {
		if err := cl.Heartbeat(t.Context()); err != nil {
			return err
		}
		j, err := n.Get(t.Context(), job.Key{ID: "a"})
		switch {
		case err != nil:
			return err
		case !j.CancelRequested:
			t.Fatal("the flag is gone")
		case j.Progress == nil:
			return fmt.Errorf("no progress yet")
		}
		return nil
	})
	j, err := cl.Settle(t.Context(), job.HandBack(0, ""))
	require.NoError(t, err)
	require.Equal(t, job.Cancelled, j.Status)
}

func TestADocumentThatOutgrowsTheLimitCanEnd(t *testing.T) {
	n := server(t).open(t)
	body := bytes.Replace(bodyOf(int(n.nc.MaxPayload())-2000), []byte(`"maxAttempts":3`), []byte(`"maxAttempts":30`), 1)
	_, err := n.js.Publish(t.Context(), "jetcrew.job.ready.default.default.a", body)
	require.NoError(t, err)
	c, err := n.Consume(t.Context(), job.ConsumerConfig{WorkerID: "w", Slots: 1, Lease: lease})
	require.NoError(t, err)
	defer c.Close(t.Context())
	for i := range 12 {
		cl, err := c.Claim(t.Context())
		require.NoError(t, err)
		cl.(job.Reporter).ReportLog(string(bytes.Repeat([]byte("log line\n"), job.MaxLogLines)))
		o := job.Fail(0, "an error of some length, so that the history grows quickly enough")
		if i == 11 {
			o = job.Succeed(nil)
		}
		_, err = cl.Settle(t.Context(), o)
		require.NoError(t, err)
	}
	j, err := n.Get(t.Context(), job.Key{ID: "a"})
	require.NoError(t, err)
	require.Equal(t, job.Succeeded, j.Status)
	require.Equal(t, 12, j.History[len(j.History)-1].Attempt, "the numbers go on")
	require.Less(t, len(j.History), 12)
}

// A lost hint costs a wait a second, not its answer.
func TestAWaitDoesNotHangOnHints(t *testing.T) {
	p := server(t)
	faults := &natstest.FaultDialer{}
	waiter := p.open(t, faults.Option())
	n := p.open(t)
	_, cl := held(t, n, "a")
	faults.DropFromServer(-1, func(frame []byte) bool { return bytes.Contains(frame, []byte(".event.")) })
	defer faults.Heal()
	got := make(chan error, 1)
	go func() {
		j, err := waiter.Wait(t.Context(), job.Key{ID: "a"})
		if err == nil && j.Status != job.Succeeded {
			err = fmt.Errorf("it is %s", j.Status)
		}
		got <- err
	}()
	_, err := cl.Settle(t.Context(), job.Succeed(nil))
	require.NoError(t, err)
	require.NoError(t, <-got)
}
