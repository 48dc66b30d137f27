package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/doctor"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// try asks for a job once.
func (c *crew) try(a *asked) error {
	c.mu.Lock()
	c.jobs[a.spec.ID] = a
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, 2*time.Second)
	defer cancel()
	got, err := c.store.Enqueue(ctx, a.spec)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		a.acked, a.created = true, got.Created
		c.acked.Add(1)
	case errors.Is(err, job.ErrUnknown):
		a.unknown++
	default:
		a.refused++
	}
	return err
}

// large is the i-th of the jobs whose input has so many bytes.
func (c *crew) large(name string, i, size int) *asked {
	c.t.Helper()
	pad, err := json.Marshal(map[string]string{"pad": strings.Repeat("x", size)})
	require.NoError(c.t, err)
	return &asked{ends: job.Succeeded, spec: job.Spec{
		ID: fmt.Sprintf("%s-%d", name, i), Queue: c.cfg.Queue, Type: jobType, MaxAttempts: 20, Input: pad,
	}}
}

// fill enqueues large jobs until one is not taken, and answers why.
func (c *crew) fill(size int) error {
	c.t.Helper()
	for i := range 10_000 {
		if err := c.try(c.large("large", i, size)); err != nil {
			return err
		}
	}
	c.t.Fatal("the store is never full")
	return nil
}

// doctorSays is what the doctor finds of one thing, the worst of it.
func (c *crew) doctorSays(id string, servers ...*natstest.Process) doctor.Finding {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cfg := doctor.Config{Timeout: 20 * time.Second}
	for _, p := range servers {
		cfg.Monitors = append(cfg.Monitors, p.MonitorURL())
	}
	r, err := doctor.Check(ctx, c.js.Conn(), cfg)
	require.NoError(c.t, err)
	ranks := []doctor.Level{"", doctor.OK, doctor.Warning, doctor.Error}
	var worst doctor.Finding
	for _, f := range r.Findings {
		if f.ID == id && slices.Index(ranks, f.Level) > slices.Index(ranks, worst.Level) {
			worst = f
		}
	}
	return worst
}

// areRunning says which of some jobs no worker has begun.
func (c *crew) areRunning(ids []string) error {
	for _, id := range ids {
		if c.account.count(is(eventStart, "", id)) == 0 {
			return fmt.Errorf("job %s does not run yet", id)
		}
	}
	return nil
}

// handled waits until the handlers of jobs have returned.
func (c *crew) handled(ids []string) {
	c.t.Helper()
	for _, id := range ids {
		c.until(func() error {
			if c.account.count(is(eventDone, "", id)) == 0 {
				return fmt.Errorf("the handler of job %s has not returned", id)
			}
			return nil
		})
	}
}

// The store is full before its disk is. Producers are told so, and that nothing was stored. Outcomes are writes as well:
// they are kept until there is room, and nothing runs again for that.
func TestStoreFull(t *testing.T) {
	heavy(t)
	t.Parallel()
	disk := natstest.Memory(t, 64)
	server := natstest.StartServer(t, natstest.ServerConfig{
		Dir: filepath.Join(disk.Dir(), "store"), JetStream: "max_file_store: 12MB",
	})
	c := newCrew(t, server.URL(), workerConfig{Lease: 15 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	held := c.put(4, "held", input{Until: c.flag("go")})
	c.until(func() error { return c.areRunning(held) })
	c.start(2, 20*time.Millisecond)
	c.progress(60)
	require.Equal(t, doctor.OK, c.doctorSays("disk", server).Level)

	err := c.fill(20 << 10)
	c.faulted()
	require.NotErrorIs(t, err, job.ErrUnknown)
	require.ErrorContains(t, err, "insufficient resources")
	require.NoError(t, os.WriteFile(c.flag("go"), nil, 0o600))
	c.handled(held)
	before := c.account.count(is(eventSettled, "", ""))
	time.Sleep(3 * time.Second) // the fault itself
	t.Logf("settled in three seconds without room: %d", c.account.count(is(eventSettled, "", ""))-before)
	says := c.doctorSays("disk", server)
	require.Equal(t, doctor.Error, says.Level, says.Text)
	require.Contains(t, says.Text, "it refuses what comes")

	server.Stop()
	server.Change(t, func(cfg *natstest.ServerConfig) { cfg.JetStream = "max_file_store: 48MB" })
	server.Restart(t)
	c.progress(100)
	c.finish()
	c.check(rules{})
	for _, id := range held {
		require.Equal(t, 1, c.account.count(is(eventStart, "", id)), "starts of %s: its result was kept", id)
	}
	c.dismiss(hands...)
}

// The disk is full before the store is, of which the doctor warns: then a server does not answer, not even when there is
// room again, until it is started anew. What it forgets by that is nobody's loss.
func TestDiskFull(t *testing.T) {
	heavy(t)
	t.Parallel()
	disk := natstest.Memory(t, 16)
	server := natstest.StartServer(t, natstest.ServerConfig{
		Dir: filepath.Join(disk.Dir(), "store"), JetStream: "max_file_store: 1GB",
	})
	c := newCrew(t, server.URL(), workerConfig{Lease: 2 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 20*time.Millisecond)
	c.progress(60)
	says := c.doctorSays("disk", server)
	require.Equal(t, doctor.Error, says.Level, says.Text)
	require.Contains(t, says.Text, "when it is full, writes are not answered")

	err := c.fill(20 << 10)
	c.faulted()
	require.ErrorIs(t, err, job.ErrUnknown)
	before := c.account.count(is(eventSettled, "", ""))
	time.Sleep(3 * time.Second) // the fault itself
	disk.Resize(64)
	time.Sleep(2 * time.Second)
	t.Logf("settled in five seconds without room, and with it: %d", c.account.count(is(eventSettled, "", ""))-before)
	server.Restart(t)
	c.progress(100)
	c.finish()
	c.check(amnesia)
	c.dismiss(hands...)
}

// Each write waits for a disk that takes sixty of them a second, the file system's own among them.
func TestDiskSlow(t *testing.T) {
	heavy(t)
	t.Parallel()
	disk := natstest.Disk(t, 128)
	server := natstest.StartServer(t, natstest.ServerConfig{
		Dir: filepath.Join(disk.Dir(), "store"), JetStream: "sync_interval: always",
	})
	c := newCrew(t, server.URL(), workerConfig{Lease: 10 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 20*time.Millisecond)
	c.progress(60)
	disk.Slow(60)
	c.faulted()
	began, before := time.Now(), c.acked.Load()
	c.progress(40)
	t.Logf("on the slow disk: 40 jobs settled and %d taken in %s", c.acked.Load()-before, time.Since(began).Round(time.Millisecond))
	disk.Fast()
	c.progress(60)
	c.finish()
	c.check(rules{})
	c.dismiss(hands...)
}
