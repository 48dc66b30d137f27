package streams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// bodyOf is a plain job's document of a size.
func bodyOf(size int) []byte {
	const begin, end = `{"type":"t","maxAttempts":3,"input":{"x":"`, `"}}`
	return fmt.Appendf(nil, "%s%s%s", begin, bytes.Repeat([]byte("x"), size-len(begin)-len(end)), end)
}

func TestANewJobLeavesRoomForWhatComes(t *testing.T) {
	n := server(t).open(t)
	limit := int(n.nc.MaxPayload())
	_, err := n.Enqueue(t.Context(), job.Spec{Type: "t", Input: []byte(fmt.Sprintf(`{"x":"%s"}`, bytes.Repeat([]byte("x"), limit-spare)))})
	require.ErrorIs(t, err, job.ErrTooLarge)
	require.ErrorContains(t, err, fmt.Sprint(limit-spare))
	_, err = n.Enqueue(t.Context(), job.Spec{Type: "t", Input: []byte(fmt.Sprintf(`{"x":"%s"}`, bytes.Repeat([]byte("x"), limit-2*spare)))})
	require.NoError(t, err)
}

// Plain producers are told of no limit but the server's. Whatever becomes of such a job, it ends, once, and the queue
// goes on.
func TestAJobAsLargeAsTheServerTakesEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		outcome func(try int) job.Outcome
		long    bool // it is claimed before it ends
		want    job.Status
		starts  int
	}{
		{"succeeds", func(int) job.Outcome { return job.Succeed([]byte(`{"n":1}`)) }, false, job.Succeeded, 1},
		{"succeeds late", func(int) job.Outcome { return job.Succeed([]byte(`{"n":1}`)) }, true, job.Succeeded, 1},
		{"fails", func(int) job.Outcome { return job.Fail(0, "no luck") }, false, job.Dead, 1},
		{"is handed back", func(int) job.Outcome { return job.HandBack(0, "not now") }, false, job.Dead, 1},
		{"waits", func(int) job.Outcome { return job.Fail(time.Hour, "no luck") }, true, job.Dead, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := server(t)
			cfg := p.config()
			cfg.Lease = time.Minute // no lease lapses, however slow the machine: a job of this size that comes back ends dead
			n := p.openAs(t, cfg)
			require.NoError(t, n.nc.Publish("jetcrew.job.ready.default.default.big", bodyOf(int(n.nc.MaxPayload()))))
			w, err := n.Consume(t.Context(), job.ConsumerConfig{WorkerID: "w", Slots: 2, Lease: cfg.Lease})
			require.NoError(t, err)
			defer w.Close(t.Context())
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			cl, err := w.Claim(ctx)
			require.NoError(t, err)
			if c.long {
				cl.(*claim).writeClaim()
			}
			j, err := cl.Settle(t.Context(), c.outcome(1))
			require.NoError(t, err)
			require.Equal(t, c.want, j.Status)
			j, err = n.Get(t.Context(), job.Key{ID: "big"})
			require.NoError(t, err)
			require.Equal(t, c.want, j.Status)
			require.Contains(t, j.Error, "left out")
			require.Equal(t, 1, j.Attempts)

			_, err = n.Enqueue(t.Context(), job.Spec{ID: "next", Type: "t"})
			require.NoError(t, err)
			cl, err = w.Claim(ctx)
			require.NoError(t, err)
			require.Equal(t, "next", cl.Job().ID, "the large one does not come again")
		})
	}
}

// Where even its claim does not fit, a job that comes back ends dead instead of holding up its queue.
func TestAJobTooLargeToBeClaimedEndsDead(t *testing.T) {
	const jobs, lease = 3, 5 * time.Second // one that lapses while the jobs are being read would end them too early
	p := server(t)
	cfg := p.config()
	cfg.Lease = lease
	n := p.openAs(t, cfg)
	for i := range jobs {
		require.NoError(t, n.nc.Publish(fmt.Sprintf("jetcrew.job.ready.default.default.big-%d", i), bodyOf(int(n.nc.MaxPayload()))))
	}
	gone, err := n.Consume(t.Context(), job.ConsumerConfig{WorkerID: "gone", Slots: jobs, Lease: lease})
	require.NoError(t, err)
	for range jobs {
		cl, err := gone.Claim(t.Context())
		require.NoError(t, err)
		cl.Abandon()
	}
	require.NoError(t, gone.Close(t.Context()))
	w, err := n.Consume(t.Context(), job.ConsumerConfig{WorkerID: "w", Slots: 2, Lease: lease})
	require.NoError(t, err)
	defer w.Close(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	taken := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			cl, err := w.Claim(ctx)
			if err != nil {
				return
			}
			taken <- cl.Job().ID
			_, _ = cl.Settle(ctx, job.Succeed(nil))
		}
	}()
	natstest.Eventually(t, soon, func() error {
		for i := range jobs {
			j, err := n.Get(ctx, job.Key{ID: fmt.Sprintf("big-%d", i)})
			if err != nil || j.Status != job.Dead {
				return fmt.Errorf("big-%d: %v, %w", i, j, err)
			}
		}
		return nil
	})
	_, err = n.Enqueue(ctx, job.Spec{ID: "next", Type: "t"})
	require.NoError(t, err)
	require.Equal(t, "next", <-taken)
	stop()
	<-done
}

// One document that cannot be mended does not keep housekeeping from the others.
func TestHousekeepingGoesOnPastWhatIsTooLarge(t *testing.T) {
	n := server(t).open(t)
	past := time.Now().Add(-time.Hour).UTC().Format(job.TimeFormat)
	big := bytes.Replace(bodyOf(int(n.nc.MaxPayload())-len(past)-11), []byte(`{"type"`), []byte(`{"runAt":"`+past+`","type"`), 1)
	require.LessOrEqual(t, len(big), int(n.nc.MaxPayload()))
	require.NoError(t, n.nc.Publish("jetcrew.job.due.default.default.big", big))
	require.NoError(t, n.nc.Publish("jetcrew.job.due.default.default.small", fmt.Appendf(nil, `{"runAt":%q,"type":"t"}`, past)))
	require.NoError(t, n.nc.Publish("jetcrew.alarm.default.default.junk.w", []byte("no alarm")))
	require.NoError(t, n.nc.Flush())
	natstest.Eventually(t, soon, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if _, err := n.Sweep(ctx); err != nil {
			return err
		}
		for id, want := range map[string]state{"big": stateDead, "small": stateReady} {
			recs, err := n.fromLeader(t.Context(), "default.default."+id)
			if err != nil || len(recs) != 1 || recs[0].state != want {
				return fmt.Errorf("%s: %v, %w", id, recs, err)
			}
		}
		_, err := n.leaderNext(t.Context(), "jetcrew.alarm.>", 1)
		if !errors.Is(err, job.ErrNotFound) {
			return fmt.Errorf("the junk stands: %w", err)
		}
		return nil
	})
}

func TestAPlainJobMayNameItsInstant(t *testing.T) {
	n := server(t).open(t)
	at := n.Now().Add(1500 * time.Millisecond).UTC()
	_, err := n.js.Publish(t.Context(), "jetcrew.job.ready.default.default.later", fmt.Appendf(nil, `{"type":"t","dueAt":%q}`, at.Format(job.TimeFormat)))
	require.NoError(t, err)
	w, err := n.Consume(t.Context(), job.ConsumerConfig{WorkerID: "w", Slots: 2, Lease: lease})
	require.NoError(t, err)
	defer w.Close(t.Context())
	cl, err := w.Claim(t.Context())
	require.NoError(t, err)
	require.False(t, n.Now().Add(50*time.Millisecond).Before(at), "it was claimed before its instant")
	require.WithinDuration(t, at, cl.Job().DueAt, time.Millisecond)
	_, err = cl.Settle(t.Context(), job.Succeed(nil))
	require.NoError(t, err)
}

func TestAPlainJobWithoutAttemptsLeftIsSetAside(t *testing.T) {
	n := server(t).open(t)
	_, err := n.js.Publish(t.Context(), "jetcrew.job.ready.default.default.worn", []byte(`{"type":"t","attempts":99}`))
	require.NoError(t, err)
	w, err := n.Consume(t.Context(), job.ConsumerConfig{WorkerID: "w", Slots: 2, Lease: lease})
	require.NoError(t, err)
	defer w.Close(t.Context())
	_, err = n.Enqueue(t.Context(), job.Spec{ID: "next", Type: "t"})
	require.NoError(t, err)
	cl, err := w.Claim(t.Context())
	require.NoError(t, err)
	require.Equal(t, "next", cl.Job().ID)
	natstest.Eventually(t, soon, func() error {
		j, err := n.Get(t.Context(), job.Key{ID: "worn"})
		if err == nil && j.Status != job.Dead {
			err = fmt.Errorf("it is %s", j.Status)
		}
		return err
	})
}

// Thousands of claims fit into one presence, with names that are as long as names may be.
func TestPresenceOfMany(t *testing.T) {
	n := server(t).open(t)
	// With a long lease the consumer's own heartbeats do not write over what is written here.
	w, err := n.Consume(t.Context(), job.ConsumerConfig{WorkerID: "w", Slots: 1, Lease: 10 * time.Minute})
	require.NoError(t, err)
	defer w.Close(t.Context())
	c := w.(*consumer)
	name := string(bytes.Repeat([]byte("\u00e9"), job.MaxName/2))
	claims := make([]*claim, 2*MaxSlots)
	for i := range claims {
		claims[i] = &claim{claimed: true}
		claims[i].base.Claim = newWriter()
		claims[i].rec.Job.Space, claims[i].rec.Job.ID = name, name
	}
	require.NoError(t, c.beatPresence(t.Context(), claims))
	last := claims[len(claims)-1]
	r := &record{document: document{Claim: last.base.Claim}}
	r.Job.WorkerID, r.Job.Queue = "w", job.DefaultQueue
	until, err := n.reported(t.Context(), r)
	require.NoError(t, err)
	require.True(t, until.After(n.Now()))
	require.NoError(t, c.beatPresence(t.Context(), claims[:namedClaims]))

	_, err = n.Consume(t.Context(), job.ConsumerConfig{WorkerID: "w", Slots: MaxSlots + 1})
	require.ErrorContains(t, err, "slots")
}
