package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

const (
	soakEnv = "SOAK"
	// soakEvery is how often it is measured at least, and a fault is made at most.
	soakEvery = 10 * time.Second
	soakName  = "soak"
)

// All kinds of load and faults at once, for as long as SOAK says: workers are killed and told to stop, the server is
// killed and stopped, schedules fire, keys are counted. A worker and a scheduler live through it. The checker has to find
// nothing, and neither they nor the server grow.
func TestSoak(t *testing.T) {
	text := os.Getenv(soakEnv)
	if text == "" {
		t.Skip("as long as it is told to: make soak")
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err, "%s is how long it takes, such as 10m", soakEnv)
	require.GreaterOrEqual(t, length, 20*time.Second, soakEnv)
	every := min(soakEvery, length/20)

	server := natstest.StartServer(t, natstest.ServerConfig{})
	c := newCrew(t, server.URL(), workerConfig{Lease: 2 * time.Second})
	steady := []*steady{c.steady("worker", false), c.steady("scheduler", true)}
	hands := []*hand{c.work("w1"), c.work("w2")}
	fires := c.fireEverySecond()
	keys := countKeys(t, server.URL())
	m := measure(t, every, server, steady)
	c.start(2, 50*time.Millisecond)

	workers := len(hands)
	replace := func(i int) {
		workers++
		hands[i] = c.work(fmt.Sprintf("w%d", workers))
	}
	for begun, n := time.Now(), 0; time.Since(begun) < length; n++ {
		next := time.Now().Add(every)
		c.progress(10)
		switch i := n / 4 % len(hands); n % 4 {
		case 0:
			hands[i].Kill()
			c.faulted()
			replace(i)
		case 1:
			server.Kill()
			c.faulted()
			server.Restart(t)
		case 2:
			c.dismiss(hands[i])
			replace(i)
		case 3:
			server.Stop()
			c.faulted()
			server.Restart(t)
		}
		c.progress(10)
		time.Sleep(time.Until(next)) // the pace of the faults
	}
	m.finish()
	counted := keys.finish(t)
	require.NoError(t, fires.Delete(t.Context(), job.DefaultSpace, soakName))
	c.finish()
	fired := c.adoptFires(t)
	v := c.judge(amnesia)
	for _, s := range v.said[:min(len(v.said), 20)] {
		t.Error(s)
	}
	t.Log(v.figures)
	fmt.Printf("soak: %s, %d faults: acknowledged %d  lost %d  doubled %d  re-run %d  violations %d  recovered in %.2f s; %d fires, each second's once; %d keys counted; %s\n",
		length, len(c.faults), v.acked, v.lost, v.doubled, v.reran, len(v.said), v.recovery.Seconds(), fired, counted, m)
	m.check()
	c.dismiss(hands...)
	for _, s := range steady {
		s.Signal(syscall.SIGTERM)
		require.Zero(t, s.Wait(patience), "exit code of the %s that lived through it", s.name)
	}
}

// fireEverySecond puts a schedule whose every fire has to be made, also those that come due while nobody can.
func (c *crew) fireEverySecond() *scheduler.Store {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	store, err := scheduler.OpenStore(ctx, c.js.Conn(), scheduler.StoreConfig{Clock: c.store})
	require.NoError(c.t, err)
	_, _, err = store.Put(ctx, "", scheduler.Spec{
		Name: soakName, Type: jobType, Queue: c.cfg.Queue, Cron: "@every 1s", MaxAttempts: 20,
		MissedPolicy: scheduler.MissedEach, MissedLimit: 100,
	})
	require.NoError(c.t, err)
	return store
}

// adoptFires has the checker know the jobs that the schedule made, and answers how many they are: one for each second from
// the first to the last.
func (c *crew) adoptFires(t *testing.T) int {
	t.Helper()
	present, err := c.rest(patience)
	require.NoError(t, err)
	var at []int
	for id := range present {
		second, ok := strings.CutPrefix(id, soakName+"@")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(second)
		require.NoError(t, err, id)
		at = append(at, n)
		c.jobs[id] = &asked{ends: job.Succeeded, spec: job.Spec{ID: id, Queue: c.cfg.Queue, Type: jobType, MaxAttempts: 20}}
	}
	slices.Sort(at)
	require.NotEmpty(t, at, "the schedule fired")
	require.Equal(t, len(at)-1, at[len(at)-1]-at[0], "each second is fired once: %v", at)
	return len(at)
}

// keyCount counts in a key, and writes others that expire, until it is finished.
type keyCount struct {
	client         *client.Client
	stop           context.CancelFunc
	done           sync.WaitGroup
	acked, unknown int64
}

func countKeys(t *testing.T, url string) *keyCount {
	t.Helper()
	c, err := client.Connect(t.Context(), client.Config{
		URLs: []string{url}, Streams: streams.Config{Lease: 2 * time.Second},
		Options: []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond)},
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	_, err = c.OpenKV(t.Context())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	k := &keyCount{client: c, stop: stop}
	t.Cleanup(func() { stop(); k.done.Wait() })
	k.done.Go(func() {
		space := c.KV().Space(soakName)
		for i := 0; ctx.Err() == nil; i++ {
			try, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			if _, err := space.Increment(try, "count", 1, 0); err == nil {
				k.acked++
			} else {
				k.unknown++
			}
			_ = space.Set(try, fmt.Sprintf("key-%d", i%100), i, 5*time.Second) // load: what it holds is not looked at
			cancel()
			time.Sleep(20 * time.Millisecond) // the pace
		}
	})
	return k
}

// finish wants all that was acknowledged to be counted, and nothing twice.
func (k *keyCount) finish(t *testing.T) int64 {
	t.Helper()
	k.stop()
	k.done.Wait()
	var n int64
	natstest.Eventually(t, patience, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		there, err := k.client.KV().Space(soakName).Get(ctx, "count", &n)
		if err == nil && !there {
			err = errors.New("the key is gone")
		}
		return err
	})
	require.GreaterOrEqual(t, n, k.acked, "counted, of what was acknowledged")
	require.LessOrEqual(t, n, k.acked+k.unknown, "counted, of what was asked for")
	return n
}
