package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// renewals hears when which delivery is said to be in progress, as any client of the server can.
type renewals struct {
	mu sync.Mutex
	at map[string][]time.Time // by the subject on which the delivery is acknowledged
}

func (p *place) renewals(t *testing.T) *renewals {
	t.Helper()
	r := &renewals{at: make(map[string][]time.Time)}
	nc := natstest.Connect(t, p.url())
	_, err := nc.Subscribe("$JS.ACK.>", func(m *nats.Msg) {
		if string(m.Data) != string(inProgress) {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.at[m.Subject] = append(r.at[m.Subject], time.Now())
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	return r
}

// of are the instants at which a claim was renewed, the one after its write included.
func (r *renewals) of(cl *claim) []time.Time {
	cl.mu.Lock()
	reply := cl.reply
	cl.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.at[reply])
}

// await waits until each claim was renewed n more times than have says.
func (r *renewals) await(t *testing.T, n int, claims ...*claim) {
	t.Helper()
	from := make([]int, len(claims))
	for i, cl := range claims {
		from[i] = len(r.of(cl))
	}
	natstest.Eventually(t, soon, func() error {
		for i, cl := range claims {
			if got := len(r.of(cl)) - from[i]; got < n {
				return fmt.Errorf("%s: renewed %d of %d times", cl.rec.job().Key(), got, n)
			}
		}
		return nil
	})
}

// flag has an operator's cancel stand in the claim's document, and tells nobody.
func (n *node) flag(key job.Key) {
	n.t.Helper()
	n.see(key, job.Running)
	natstest.Eventually(n.t, soon, func() error {
		recs := n.docs(key)
		top := newest(recs)
		if top == nil || top.state != stateRunning {
			return errors.New("its claim does not stand")
		}
		d := top.document
		d.Rev++
		d.Writer = newWriter()
		d.Job.CancelRequested = true
		_, err := n.put(n.t.Context(), write{tail: top.tail, state: stateRunning, doc: &d, guard: last(recs)})
		return err
	})
}

func TestContractB2_EveryClaimIsRenewedAtAThirdOfTheLease(t *testing.T) {
	t.Parallel()
	p := server(t)
	heard := p.renewals(t)
	n := p.open(t)
	c := n.work("q", "w")
	const jobs = 20
	claims := make([]*claim, jobs)
	for i := range claims {
		n.enqueue(spec("q", fmt.Sprint(i)))
		claims[i] = claimOne(t, c)
	}
	heard.await(t, 12, claims...) // four leases of it
	for _, cl := range claims {
		times := heard.of(cl)
		gaps := make([]time.Duration, 0, len(times))
		for i := 2; i < len(times); i++ { // the first one comes with the write of the claim, at any moment
			gaps = append(gaps, times[i].Sub(times[i-1]))
		}
		slices.Sort(gaps)
		median := gaps[len(gaps)/2] // a busy machine may be late at times
		require.Greater(t, median, lease/4, "%s: %s", cl.rec.job().Key(), gaps)
		require.Less(t, median, lease/2, "%s: %s", cl.rec.job().Key(), gaps)
	}
	for _, cl := range claims {
		settle(t, cl, job.Succeed(nil))
	}
	n.clean("q", jobs)
}

func TestContractB2_AClaimHeldForLeasesIsNotHandedToAnother(t *testing.T) {
	t.Parallel()
	p := server(t)
	heard := p.renewals(t)
	n := p.open(t)
	holder := n.work("q", "holder")
	keys := []job.Key{n.enqueue(spec("q", "a")), n.enqueue(spec("q", "b"))}
	claims := []*claim{claimOne(t, holder), claimOne(t, holder)}
	for _, cl := range claims {
		cl.Notify(func(err error) { t.Errorf("a held claim was interrupted: %s", err) })
	}

	other := p.open(t).work("q", "other")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		cl, err := other.Claim(ctx)
		if err == nil {
			err = fmt.Errorf("%s was handed out", cl.Job().Key())
		}
		answered <- err
	}()

	heard.await(t, 11, claims...) // well over three leases
	select {
	case err := <-answered:
		require.NoError(t, err, "a worker that only waits")
	default:
	}
	for i, cl := range claims {
		j, err := n.Get(t.Context(), keys[i])
		require.NoError(t, err)
		require.Equal(t, job.Running, j.Status)
		require.Equal(t, "holder", j.WorkerID)
		require.Equal(t, 1, settle(t, cl, job.Succeed(nil)).Attempts)
		require.EqualValues(t, 1, cl.count)
	}
	cancel()
	require.ErrorIs(t, <-answered, context.Canceled)
	n.clean("q", len(keys))
}

func TestContractB2_TheBeatAloneLearnsOfACancel(t *testing.T) {
	t.Parallel()
	p := server(t)
	heard := p.renewals(t)
	n := p.open(t)
	c := n.work("q", "w")
	key := n.enqueue(spec("q", "flagged"))
	flagged := claimOne(t, c)
	n.enqueue(spec("q", "beside"))
	beside := claimOne(t, c)
	told := make(chan error, 2)
	flagged.Notify(func(err error) { told <- err })
	beside.Notify(func(err error) { t.Errorf("the wrong job was told: %s", err) })
	heard.await(t, 2, flagged, beside)

	hints, err := n.nc.SubscribeSync(n.names.cancelHints("q"))
	require.NoError(t, err)
	operator := p.open(t)
	operator.flag(key)
	before := len(heard.of(flagged))
	select {
	case err := <-told:
		require.ErrorIs(t, err, job.ErrCancelRequested)
	case <-time.After(soon):
		require.Fail(t, "never told")
	}
	// The beat that was under way may have looked too early, and the one that tells may be heard as well.
	require.LessOrEqual(t, len(heard.of(flagged))-before, 3)

	// It is held on, and told no more.
	heard.await(t, 4, flagged, beside)
	require.Empty(t, told)
	pending, _, err := hints.Pending()
	require.NoError(t, err)
	require.Zero(t, pending, "nobody gave a hint")
	settle(t, flagged, job.Outcome{Status: job.Cancelled, Error: "cancelled by an operator"})
	require.Equal(t, job.Cancelled, n.see(key, job.Cancelled).Status)
	settle(t, beside, job.Succeed(nil))
	n.clean("q", 2)
}

func TestContractB2_ACallersOwnHeartbeatLearnsOfACancelToo(t *testing.T) {
	t.Parallel()
	p := server(t)
	cfg := p.config()
	cfg.Lease = time.Hour // no beat of the consumer's own
	n := p.openAs(t, cfg)
	c, err := n.Consume(t.Context(), job.ConsumerConfig{Queue: "q", WorkerID: "w", Slots: 1})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	key := n.enqueue(spec("q", "j"))
	cl := claimOne(t, c.(*consumer))
	told := make(chan error, 1)
	cl.Notify(func(err error) { told <- err })
	require.NoError(t, cl.Heartbeat(t.Context()))
	p.open(t).flag(key)
	require.NoError(t, cl.Heartbeat(t.Context()), "it is still held")
	select {
	case err := <-told:
		require.ErrorIs(t, err, job.ErrCancelRequested)
	case <-time.After(soon):
		require.Fail(t, "never told")
	}
	settle(t, cl, job.Outcome{Status: job.Cancelled})
	n.clean("q", 1)
}
