package chaos

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// How a handler can take its whole process along, with all that runs beside it.
const (
	diesByExit   = "exit"   // it calls os.Exit
	diesByPanic  = "panic"  // a goroutine of its own panics, which nobody can recover
	diesByKernel = "kernel" // the kernel kills it, as it does with who takes too much memory
)

// die does not return.
func (in input) die() {
	switch in.Dies {
	case diesByExit:
		os.Exit(3)
	case diesByPanic:
		go func() { panic("a goroutine of the handler's own") }()
	case diesByKernel:
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
	default:
		panic("no such death: " + in.Dies)
	}
	select {}
}

// Each process that takes such a job dies, and another is started in its place, as a supervisor does. Each death is an
// attempt of the job's, which the next worker writes down; when they are used up the job is dead, and what ran beside it
// has come to its end all the same.
func TestJobsThatEndTheirProcess(t *testing.T) {
	heavy(t)
	t.Parallel()
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: time.Second, Slots: 2})
	const attempts = 3
	var deadly []string
	for _, how := range []string{diesByExit, diesByPanic, diesByKernel} {
		for _, sleep := range []int{0, 300} { // before its claim is written, and after
			id := fmt.Sprintf("%s-after-%d", how, sleep)
			deadly = append(deadly, id)
			c.enqueue(&asked{ends: job.Dead, spec: job.Spec{
				ID: id, Queue: c.cfg.Queue, Type: jobType, MaxAttempts: attempts, Input: input{Sleep: sleep, Dies: how}.json(),
			}}, false)
		}
	}
	c.put(20, "beside", input{Sleep: 100})
	hands := []*hand{c.work("w0"), c.work("w1")}
	deaths := 0
	c.until(func() error {
		for i, h := range hands {
			select {
			case <-h.Done():
				c.faulted()
				deaths++
				hands[i] = c.work(fmt.Sprintf("w%d-%d", i, deaths))
			default:
			}
		}
		for _, id := range deadly {
			if j, err := c.job(id); err != nil || !j.Status.Terminal() {
				return fmt.Errorf("job %s has not ended after %d deaths (%v)", id, deaths, err)
			}
		}
		return nil
	})
	c.check(vanished)
	for _, id := range deadly {
		j, err := c.job(id)
		require.NoError(t, err)
		require.Equal(t, job.Dead, j.Status, id)
		require.Equal(t, attempts, j.Attempts, id)
		for _, a := range j.History {
			require.Equal(t, job.AttemptLost, a.Status, id)
		}
	}
	require.GreaterOrEqual(t, deaths, attempts)
	c.dismiss(hands...)
}
