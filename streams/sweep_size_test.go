//go:build unix

package streams

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// sizeEnv asks TestSweepAtSize for so many records, and for its figures: there is nothing to fail on.
const sizeEnv = "JETCREW_SWEEP_RECORDS"

// fill stores records as they stand after a day's work: most have ended, a tenth waits for its instant, and some are
// gone from the middle.
func (n *node) fill(records int) {
	n.t.Helper()
	text := make([]byte, 300)
	for i := range text {
		text[i] = 'x'
	}
	for i := range records {
		st, ttl := stateSucceeded, "86400"
		if i%10 == 0 {
			st, ttl = stateDue, ""
		}
		key := keyOf(fmt.Sprint("q", i%100), fmt.Sprint("job-", i))
		d := document{V: version, Rev: 2, Writer: newWriter()}
		d.Job.Queue, d.Job.Space, d.Job.ID, d.Job.Type, d.Job.Status = key.Queue, key.Space, key.ID, "t", st.status()
		d.Job.Input = fmt.Appendf(nil, `{"text":%q}`, text)
		d.Job.MaxAttempts, d.Job.RunAt = 3, job.Millis(n.Now().Add(24*time.Hour))
		body, err := job.Encode(&d)
		require.NoError(n.t, err)
		m := &nats.Msg{Subject: n.names.job(st, tail(key)), Data: body, Header: nats.Header{}}
		if ttl != "" {
			m.Header[jetstream.MsgTTLHeader] = []string{ttl}
		}
		_, err = n.js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute))
		require.NoError(n.t, err)
	}
	<-n.js.PublishAsyncComplete()
	for seq := uint64(7); seq < uint64(records); seq += uint64(records / 50) {
		require.NoError(n.t, n.remove(n.t.Context(), seq))
	}
}

// worked is the processor time that this process has used, its server's included.
func worked(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// drain runs quick jobs for a while, and answers how many it did in a second.
func (n *node) drain(d time.Duration) float64 {
	n.t.Helper()
	ctx, stop := context.WithTimeout(n.t.Context(), d)
	defer stop()
	c := n.work("drain", "w-"+newWriter())
	var done atomic.Int64
	finished := make(chan struct{})
	for range c.cfg.Slots {
		go func() {
			defer func() { finished <- struct{}{} }()
			for {
				cl, err := c.Claim(ctx)
				if err != nil {
					return
				}
				if _, err := cl.Settle(n.t.Context(), job.Succeed(nil)); err == nil {
					done.Add(1)
				}
			}
		}()
	}
	for range c.cfg.Slots {
		<-finished
	}
	return float64(done.Load()) / d.Seconds()
}

func TestSweepAtSize(t *testing.T) {
	records, err := strconv.Atoi(os.Getenv(sizeEnv))
	if err != nil {
		t.Skipf("set %s to a number of records, such as 1000000, for figures", sizeEnv)
	}
	p := server(t)
	n := p.open(t)
	began := time.Now()
	n.fill(records)
	t.Logf("%d records stored in %s", records, time.Since(began).Round(time.Millisecond))
	const ready = 60_000
	specs := make([]job.Spec, ready)
	for i := range specs {
		specs[i] = job.Spec{Queue: "drain", ID: fmt.Sprint(i), Type: "t"}
	}
	for _, got := range must(n.EnqueueMany(t.Context(), specs)) {
		require.NoError(t, got.Err)
	}
	leader := p.open(t)
	round := func(what string) {
		began, used := time.Now(), worked(t)
		rep, err := leader.Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, SweepReport{}, rep)
		t.Logf("%s: %s, %s of work", what, time.Since(began).Round(100*time.Microsecond), (worked(t) - used).Round(100*time.Microsecond))
	}
	round("a new leader's first round")
	for i := 0; !leader.sweep.due.whole; i++ {
		round(fmt.Sprintf("round %d, still reading what waits", i+2))
	}
	for i := range 3 {
		time.Sleep(time.Second) // what is paced comes in its turn
		round(fmt.Sprintf("round %d at rest", i))
	}
	walker := p.open(t)
	walker.sweep.after = defaultSweepAges
	walker.sweep.after.share = 0
	ext, err := walker.extent(t.Context())
	require.NoError(t, err)
	walk := func(how string) {
		began, used, slices, longest := time.Now(), worked(t), 0, time.Duration(0)
		for slices == 0 || walker.sweep.walk.end != 0 {
			one := time.Now()
			require.NoError(t, walker.sweepWalkPart(t.Context(), ext, new(SweepReport)))
			longest = max(longest, time.Since(one))
			slices++
		}
		took := time.Since(began)
		t.Logf("a walk through everything%s: %s in %d parts, the longest %s, %s of work; at its share it takes %s", how,
			took.Round(time.Millisecond), slices, longest.Round(time.Millisecond), (worked(t) - used).Round(time.Millisecond),
			(sweepShare * took).Round(time.Second))
	}
	walk("")
	const d = 3 * time.Second
	alone := n.drain(d)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			_, _ = leader.Sweep(ctx)
			_ = sleep(ctx, time.Second)
		}
	}()
	with := n.drain(d)
	stop()
	<-over
	ctx, stop = context.WithCancel(t.Context())
	over = make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			_ = walker.sweepWalkPart(ctx, ext, new(SweepReport))
		}
	}()
	walked := n.drain(d)
	stop()
	<-over
	t.Logf("a drain: %.0f jobs/s alone, %.0f with a round a second, %.0f with a walk that does not pause", alone, with, walked)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
