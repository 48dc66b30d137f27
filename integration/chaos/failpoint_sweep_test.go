//go:build failpoints

package chaos

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// The server loses the ready messages of jobs that run, and then their holder dies: only housekeeping can find them. It
// comes to harm when it is about to go on with one of them.
func TestFailpointOfHousekeeping(t *testing.T) {
	t.Parallel()
	eachAction(t, failpoint.AfterSweepList, func(t *testing.T, action string) {
		c := failpointCrew(t)
		holder := c.work("holder")
		ids := c.put(8, "held", input{Until: c.flag("go")})
		c.claimed(ids, holder.id)
		for _, id := range ids {
			c.forget("jetcrew.job.ready." + c.cfg.Queue + ".default." + id)
		}
		holder.Kill()
		n := 1
		if action == errs {
			n = 2
		}
		c.start(2, 20*time.Millisecond)
		var victims []*hand
		for i := range map[string]int{dies: 2, freezes: 1, errs: 1, lags: 1}[action] {
			v := c.work(fmt.Sprintf("victim-%d", i), armed(failpoint.AfterSweepList, action, n))
			v.says(hit(failpoint.AfterSweepList, action))
			c.faulted()
			if action == dies {
				require.Equal(t, -1, v.Wait(patience), "exit code of %s", v.id)
				continue
			}
			victims = append(victims, v)
		}
		require.NoError(t, os.WriteFile(c.flag("go"), nil, 0o600))
		steady := c.work("steady")
		r := rules{crashes: vanished.crashes}
		if action == freezes {
			// Others repair, and run what was repaired, before it goes on to write what it had decided.
			v := victims[0]
			v.AwaitStop()
			c.succeeded(ids)
			v.Resume()
			r.frozen = append(r.frozen, v.id)
		}
		c.progress(100)
		c.finish()
		c.check(r)
		c.dismiss(append(victims, steady)...)
	})
}

// succeeded waits until jobs have succeeded.
func (c *crew) succeeded(ids []string) {
	c.t.Helper()
	for _, id := range ids {
		c.until(func() error {
			j, err := c.job(id)
			if err == nil && j.Status != job.Succeeded {
				err = fmt.Errorf("job %s is %s", id, j.Status)
			}
			return err
		})
	}
}

// forget deletes the message on a subject, as a server does that loses it.
func (c *crew) forget(subject string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.js.Stream(ctx, stream)
	require.NoError(c.t, err)
	m, err := s.GetLastMsgForSubject(ctx, subject)
	require.NoError(c.t, err)
	require.NoError(c.t, s.DeleteMsg(ctx, m.Sequence))
}
