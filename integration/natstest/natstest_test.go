package natstest_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

const soon = 30 * time.Second

func TestMain(m *testing.M) {
	natstest.Main(m,
		natstest.Role("echo", echo),
		natstest.Role("parent", parent),
	)
}

func stream(t *testing.T, nc *nats.Conn, replicas int) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	natstest.Eventually(t, soon, func() error {
		_, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
			Name: "S", Subjects: []string{"s.>"}, Replicas: replicas,
		})
		return err
	})
	return js
}

// publish stores a message, trying again while it is refused or unanswered.
func publish(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	var seq uint64
	natstest.Eventually(t, soon, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		ack, err := js.Publish(ctx, "s.a", []byte("x"))
		if err == nil {
			seq = ack.Sequence
		}
		return err
	}, "publish")
	return seq
}

func TestEmbeddedServerServes(t *testing.T) {
	js := stream(t, natstest.Connect(t, natstest.Embedded(t).URL()), 1)
	require.EqualValues(t, 1, publish(t, js))
}

func TestServerProcessKeepsItsStoreThroughKillAndStop(t *testing.T) {
	p := natstest.StartServer(t, natstest.ServerConfig{JetStream: "sync_interval: always"})
	js := stream(t, natstest.Connect(t, p.URL()), 1)
	require.EqualValues(t, 1, publish(t, js))

	pid := p.PID()
	p.Kill()
	p.Kill() // of what is dead: nothing
	require.False(t, p.Running())
	p.Restart(t)
	require.NotEqual(t, pid, p.PID())
	require.EqualValues(t, 2, publish(t, js))

	p.Stop()
	require.False(t, p.Running())
	p.Restart(t)
	require.EqualValues(t, 3, publish(t, js))

	p.Restart(t) // of what runs: a clean stop first
	require.EqualValues(t, 4, publish(t, js))
}

func TestPausedServerAnswersWhenItIsResumed(t *testing.T) {
	p := natstest.StartServer(t, natstest.ServerConfig{Extra: "max_payload: 64KB"})
	nc := natstest.Connect(t, p.URL())
	require.EqualValues(t, 64<<10, nc.MaxPayload())
	p.Pause()
	require.True(t, p.Running())
	require.Error(t, nc.FlushTimeout(200*time.Millisecond))
	p.Resume()
	require.NoError(t, nc.FlushTimeout(soon))
	p.Pause()
	p.Stop() // resumes it
	require.False(t, p.Running())
}

func TestClusterSurvivesTheLossOfALeader(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	js := stream(t, natstest.Connect(t, c.URLs()), 3)
	require.EqualValues(t, 1, publish(t, js))

	leader := c.StreamLeader(t, "S")
	require.Same(t, leader, c.NodeNamed(leader.Name()))
	leader.Kill()
	publish(t, js)
	require.NotEqual(t, leader.Name(), c.StreamLeader(t, "S").Name())

	leader.Restart(t)
	c.WaitReady(t)
	c.WaitStreamCurrent(t, "S")
	publish(t, js)
	require.Nil(t, c.NodeNamed("nobody"))
	require.Len(t, strings.Split(c.URLs(), ","), 3)
	require.Contains(t, c.URLs(), c.Node(1).URL())
}

// echo is a role: it says who it is, then what it is told by signals.
func echo() int {
	fmt.Println("hello", os.Getenv("ECHO_NAME"))
	fmt.Println(os.Getpid())
	if os.Getenv("ECHO_STAY") == "" {
		fmt.Print("the end")
		return 7
	}
	select {}
}

func TestRoleRunsInAProcessOfItsOwn(t *testing.T) {
	p := natstest.StartRole(t, "echo", "ECHO_NAME=you")
	require.Equal(t, "hello you", <-p.Lines())
	require.Equal(t, fmt.Sprint(p.PID()), <-p.Lines())
	require.Equal(t, 7, p.Wait(soon))
	require.Equal(t, "the end", <-p.Lines())
	_, open := <-p.Lines()
	require.False(t, open)
}

func TestRoleIsPausedResumedAndKilled(t *testing.T) {
	p := natstest.StartRole(t, "echo", "ECHO_STAY=1")
	<-p.Lines()
	for range 20 {
		p.Pause()
		require.True(t, alive(p.PID()))
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		if err == nil { // only Linux tells
			require.Contains(t, string(stat), ") T ", "stopped when Pause returns")
		}
		p.Resume()
	}
	p.Pause()
	p.Kill()
	<-p.Done()
	require.False(t, alive(p.PID()))
	require.Equal(t, -1, p.Wait(soon))
	p.Signal(syscall.SIGTERM) // to what is dead: nothing
}

func TestUnknownRoleEndsAtOnce(t *testing.T) {
	require.Equal(t, 2, natstest.StartRole(t, "nobody").Wait(soon))
}

// parent is a role that starts another process, so that a test can kill it: it
// stands for a test process.
func parent() int {
	t := &testing.B{} // never finished: what it registers for its end does not run
	p := natstest.StartRole(t, "echo", "ECHO_STAY=1")
	<-p.Lines()
	if os.Getenv("PARENT_PAUSES") != "" {
		p.Pause()
	}
	fmt.Println(p.PID())
	select {}
}

func TestProcessesDieWithTheTestProcess(t *testing.T) {
	for _, env := range []string{"PARENT_PAUSES=", "PARENT_PAUSES=1"} {
		p := natstest.StartRole(t, "parent", env, "TMPDIR="+t.TempDir())
		var pid int
		_, err := fmt.Sscan(<-p.Lines(), &pid)
		require.NoError(t, err)
		require.True(t, alive(pid))
		p.Kill()
		natstest.Eventually(t, soon, func() bool { return !alive(pid) }, "the grandchild ends")
	}
}

// alive says whether a process runs. One that is dead and that nobody has waited
// for yet does not, which only Linux can tell.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil && strings.Contains(string(stat), ") Z ") {
		return false
	}
	return syscall.Kill(pid, 0) == nil
}

func TestEventuallyFailsWithTheLastError(t *testing.T) {
	failed := &recorder{TB: t}
	func() {
		defer func() { _ = recover() }()
		natstest.Eventually(failed, time.Millisecond, func() error { return os.ErrNotExist }, "the", "file")
	}()
	require.Equal(t, "the file: after 1ms: file does not exist", failed.msg)
	natstest.Eventually(t, soon, func() bool { return true })
}

// recorder is a test that keeps its failure for another to look at.
type recorder struct {
	testing.TB
	msg string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.msg = fmt.Sprintf(format, args...)
	panic(r.msg)
}
