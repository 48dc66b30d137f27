//go:build failpoints

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// soon is how quickly a scene has to come to rest: it is a few jobs, and their leases are short.
	soon = 20 * time.Second
	// stuck is the same where little is left to be done, and a broken rule may mean that it is never done.
	stuck = 10 * time.Second
)

// await waits until there are n lines in the ledgers that fit.
func (c *crew) await(n int, what string, fits func(entry) bool) {
	c.t.Helper()
	c.until(func() error {
		if got := c.account.count(fits); got < n {
			return fmt.Errorf("%s: %d times, want %d", what, got, n)
		}
		return nil
	})
}

// raise makes a file for jobs to see.
func (c *crew) raise(flag string) { require.NoError(c.t, os.WriteFile(c.flag(flag), nil, 0o600)) }

// workAs is work for a worker that calls itself by a name of others, and keeps a ledger of its own.
func (c *crew) workAs(name, ledger string) *hand {
	c.t.Helper()
	cfg := c.cfg
	cfg.ID, cfg.Ledger = name, filepath.Join(c.dir, ledger+".jsonl")
	text, err := json.Marshal(cfg)
	require.NoError(c.t, err)
	h := &hand{Proc: natstest.StartRole(c.t, roleWorker, workerEnv+"="+string(text)), id: name, crew: c}
	c.account.add(cfg.Ledger)
	c.await(1, "worker "+ledger+" is up", h.wrote(eventUp, ""))
	return h
}

// wrote fits what one process wrote, whatever others of its name did.
func (h *hand) wrote(ev event, job string) func(entry) bool {
	return func(e entry) bool { return e.PID == h.PID() && is(ev, "", job)(e) }
}

// Workers are killed in the middle of jobs under load.
func workersKilled(t *testing.T) *verdict {
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: time.Second})
	steady, victim := c.work("steady"), c.work("victim-0")
	c.start(2, 10*time.Millisecond)
	for i := 1; i <= 2; i++ {
		c.await(60*i, "jobs were begun", is(eventStart, "", ""))
		c.put(4, fmt.Sprintf("held-%d", i), input{Sleep: 300}) // for it to have something in hand
		victim.busy(1)
		victim.Kill()
		c.faulted()
		victim = c.work(fmt.Sprintf("victim-%d", i))
	}
	c.finish()
	r := vanished
	r.within = soon
	v := c.judge(r)
	c.dismiss(steady, victim)
	return v
}

// What a worker sends is on its way for so long that its job is another's, and done, when the outcome arrives.
func outcomeOnItsWayForLong(t *testing.T) *verdict {
	server := natstest.StartServer(t, natstest.ServerConfig{})
	link := natstest.StartLink(t, server.URL())
	c := newCrew(t, server.URL(), workerConfig{Lease: time.Second, Slots: 1})
	c.cfg.URL = link.URL()
	slow := c.work("slow")
	ids := c.put(1, "late", input{Until: c.flag("go")})
	c.claimed(ids, "slow")
	link.Slow(6*time.Second, 0)
	c.raise("go")
	c.await(1, "its handler has returned", is(eventDone, "slow", ""))
	c.faulted()
	c.cfg.URL = server.URL()
	heir := c.work("heir")
	c.await(1, "its heir has settled", is(eventSettled, "heir", ""))
	link.Slow(0, 0)
	c.await(1, "the outcome has arrived", func(e entry) bool {
		return e.Worker == "slow" && (e.Event == eventSettled || e.Event == eventLost)
	})
	v := c.judge(rules{crashes: 1, within: soon})
	c.dismiss(slow, heir)
	return v
}

// Two processes go by one name. Neither heartbeats nor claims of the first arrive, so that the second begins the job as
// the same attempt of the same worker.
func oneNameForTwo(t *testing.T) *verdict {
	server := natstest.StartServer(t, natstest.ServerConfig{})
	link := natstest.StartLink(t, server.URL())
	c := newCrew(t, server.URL(), workerConfig{Lease: time.Second, Slots: 1})
	c.cfg.URL = link.URL()
	first := c.workAs("twin", "first")
	link.DropToServer(-1, func(frame []byte) bool {
		return bytes.Contains(frame, []byte("jetcrew.job.running.")) || bytes.Contains(frame, []byte("+WPI"))
	})
	c.enqueue(&asked{ends: job.Succeeded, spec: job.Spec{
		ID: "shared", Queue: c.cfg.Queue, Type: jobType, MaxAttempts: 1, Input: input{Until: c.flag("go")}.json(),
	}}, false)
	c.await(1, "the first has begun", first.wrote(eventStart, ""))
	c.faulted()
	c.cfg.URL = server.URL()
	second := c.workAs("twin", "second")
	c.await(1, "the second has begun", second.wrote(eventStart, ""))
	// The first hears of it at its next heartbeat, unless it takes the claim for its own.
	heard := time.Now().Add(2 * c.cfg.Lease)
	c.until(func() error {
		if c.account.count(first.wrote(eventDone, "")) == 0 && time.Now().Before(heard) {
			return fmt.Errorf("the first goes on")
		}
		return nil
	})
	second.Pause()
	link.Heal()
	c.raise("go")
	c.await(1, "the first has an answer, or nothing to ask", func(e entry) bool {
		return e.PID == first.PID() && (e.Event == eventSettled || e.Event == eventLost || e.Event == eventDone && e.Error != "")
	})
	second.Resume()
	v := c.judge(rules{crashes: 1, heirs: true, within: soon})
	c.dismiss(first, second)
	return v
}

// The first ack of each worker is lost.
func ackLost(t *testing.T) *verdict {
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: time.Second})
	w1, w2 := c.work("w1", firstAckLost), c.work("w2", firstAckLost)
	c.put(20, "quick", input{})
	c.settled(20)
	c.faulted()
	v := c.judge(rules{within: stuck})
	c.dismiss(w1, w2)
	return v
}

const firstAckLost = "JETCREW_FAILPOINTS=" + failpoint.BeforeAck + "=error#1"

// The same in a queue that keeps no records.
func ackLostWithoutRecord(t *testing.T) *verdict {
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: 4 * time.Second})
	ctx, cancel := c.bounded()
	defer cancel()
	_, err := c.store.Configure(ctx, c.cfg.Queue, job.QueueSettings{Retention: map[job.Status]time.Duration{job.Succeeded: 0}})
	require.NoError(t, err)
	w := c.work("w1", firstAckLost)
	c.put(1, "slow", input{Sleep: 300}) // so that it is claimed, and its end written
	c.settled(1)
	c.faulted()
	v := c.judge(rules{unrecorded: true, within: soon})
	c.dismiss(w)
	return v
}

// A worker has its hands full until another one has run something: what is left is there for that one to take at once,
// and does not wait with the first.
func moreThanCanBeRun(t *testing.T) *verdict {
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: 3 * time.Second, Slots: 4})
	w1 := c.work("w1")
	c.put(4, "held", input{Until: c.flag("go")})
	w1.busy(4)
	c.put(40, "waits", input{})
	w2 := c.work("w2")
	c.settled(1)
	c.raise("go")
	v := c.judge(rules{calm: true, within: soon})
	c.dismiss(w1, w2)
	return v
}

// A worker is held up between the outcome of an attempt and what it has to clear away after it. Meanwhile the next
// attempt begins, and its holder is killed: it was the last.
func cleanedUpLate(t *testing.T) *verdict {
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: time.Second, Slots: 1})
	w := c.work("held-up", armed(failpoint.AfterSettle, lags, 1))
	c.enqueue(&asked{ends: job.Dead, spec: job.Spec{
		ID: "twice", Queue: c.cfg.Queue, Type: jobType, MaxAttempts: 2, Input: input{Sleep: 300, Tires: 1, Until: c.flag("go")}.json(),
		Retry: &job.Retry{Base: 50 * time.Millisecond},
	}}, false)
	c.until(func() error {
		j, err := c.job("twice")
		if err == nil && (j.Status != job.Running || j.Attempts != 2) {
			err = fmt.Errorf("attempt %d is %s, want the second to run", j.Attempts, j.Status)
		}
		return err
	})
	require.Zero(t, c.account.count(is(eventSettled, "", "")), "it was not held up for long enough")
	c.await(1, "it has cleared away", is(eventSettled, "", ""))
	w.Kill()
	c.faulted()
	c.raise("go")
	heir := c.work("heir")
	v := c.judge(rules{within: soon})
	c.dismiss(heir)
	return v
}
