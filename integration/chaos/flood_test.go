package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// line is one of a worker's log.
type line struct {
	Level    string
	Message  string
	Failures int // what was not said one by one
	Failed   int // the same
}

// log is what a worker has said so far. What the mix of jobs, and the housekeeping of the test's own, have to say is
// left out.
func (h *hand) log() []line {
	h.crew.t.Helper()
	for {
		select {
		case text := <-h.Lines():
			h.said = append(h.said, text)
			continue
		default:
		}
		break
	}
	var out []line
	for _, text := range h.said {
		var l line
		if json.Unmarshal([]byte(text), &l) != nil || slices.Contains([]string{"attempt failed", "dead", "housekeeping"}, l.Message) {
			continue
		}
		out = append(out, l)
	}
	return out
}

// The server is away for half a minute while jobs run, end and wait. Each worker says in a few lines that it is, and how
// much it has kept to itself when it is back.
func TestLogsInAnOutage(t *testing.T) {
	heavy(t)
	t.Parallel()
	server := natstest.StartServer(t, natstest.ServerConfig{})
	c := newCrew(t, server.URL(), workerConfig{Lease: time.Minute, Slots: 8})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 20*time.Millisecond)
	c.progress(60)
	c.put(16, "held", input{Until: c.flag("go")}) // their outcomes cannot be written
	for _, h := range hands {
		h.busy(4)
	}
	before := make(map[*hand]int)
	for _, h := range hands {
		before[h] = len(h.log())
	}
	server.Kill()
	c.faulted()
	require.NoError(t, os.WriteFile(c.flag("go"), nil, 0o600))
	time.Sleep(30 * time.Second) // the fault itself
	for _, h := range hands {
		said := h.log()[before[h]:]
		t.Logf("%s, while the server was away: %v", h.id, said)
		require.LessOrEqual(t, len(said), 10, "%s", h.id)
		kinds := make(map[string]int)
		for _, l := range said {
			kinds[l.Message]++
			require.LessOrEqual(t, kinds[l.Message], 2, "%s: %s", h.id, l.Message) // jobs and wakes have a consumer each
		}
	}
	server.Restart(t)
	c.progress(60)
	c.finish()
	for _, h := range hands {
		c.until(func() error { // each kind of trouble ends with how much of it was not said
			begun, ended, counted := 0, 0, 0
			for _, l := range h.log()[before[h]:] {
				switch {
				case strings.Contains(l.Message, "again"):
					ended++
					counted += l.Failures + l.Failed
				case l.Level != "info":
					begun++
				}
			}
			if ended < begun || counted == 0 {
				return fmt.Errorf("%s has told of %d troubles, and of the end of %d, with %d failures", h.id, begun, ended, counted)
			}
			return nil
		})
		t.Logf("%s, in all: %v", h.id, h.log()[before[h]:])
		require.LessOrEqual(t, len(h.log())-before[h], 20, "%s", h.id)
	}
	c.check(amnesia)
	c.dismiss(hands...)
}

// Ten thousand jobs fail at once. Their second attempts are spread evenly over the time that the policy has for it.
func TestTenThousandJobsFailAtOnce(t *testing.T) {
	heavy(t)
	t.Parallel()
	const jobs, step = 10_000, 4 * time.Second
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: 10 * time.Second, Slots: 50})
	var all sync.WaitGroup
	for part := range 20 {
		all.Go(func() {
			for i := range jobs / 20 {
				c.enqueue(&asked{ends: job.Succeeded, spec: job.Spec{
					ID: fmt.Sprintf("j-%d-%d", part, i), Queue: c.cfg.Queue, Type: jobType, MaxAttempts: 5,
					Retry: &job.Retry{Base: step, Max: time.Minute}, Input: input{Fails: 1}.json(),
				}}, false)
			}
		})
	}
	all.Wait()
	c.faulted()
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.settled(2 * jobs)
	var waits []time.Duration
	for id := range c.history() {
		j, err := c.job(id)
		require.NoError(t, err)
		waits = append(waits, j.RunAt.Sub(j.History[0].EndedAt))
	}
	slices.Sort(waits)
	require.Len(t, waits, jobs)
	require.GreaterOrEqual(t, waits[0], step-time.Second, "the instants of a record are the worker's and the server's")
	spread := waits[jobs-1] - waits[0]
	t.Logf("second attempts %s to %s after the first ones", waits[0], waits[jobs-1])
	require.GreaterOrEqual(t, spread, step*8/10)
	tenths := make([]int, 10)
	for _, w := range waits {
		tenths[min(9, int(10*(w-waits[0])/(spread+1)))]++
	}
	for _, n := range tenths {
		require.InDelta(t, jobs/10, n, jobs/20, "not spread evenly: %v", tenths)
	}
	c.check(rules{crashes: 1})
	c.dismiss(hands...)
}
