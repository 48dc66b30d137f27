package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/doctor"
)

// replica is what a node has of a stream.
type replica struct {
	Messages uint64 `json:"messages"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
	Deleted  int    `json:"num_deleted"`
}

// replicaOn asks a node itself, for a stream's info comes from its leader.
func replicaOn(t *testing.T, p *natstest.Process) replica {
	t.Helper()
	resp, err := http.Get(p.MonitorURL() + "/jsz?accounts=true&streams=true")
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var is struct {
		Accounts []struct {
			Streams []struct {
				Name  string  `json:"name"`
				State replica `json:"state"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	require.NoError(t, json.Unmarshal(body, &is))
	for _, a := range is.Accounts {
		for _, s := range a.Streams {
			if s.Name == stream {
				return s.State
			}
		}
	}
	t.Fatalf("node %s has no stream %s", p.Name(), stream)
	return replica{}
}

// damage flips one bit in the middle of the first block of a stopped node's stream, and takes away the index, which
// would hide that until the block is read.
func damage(t *testing.T, p *natstest.Process) {
	t.Helper()
	dir := filepath.Join(streamDir(p), "msgs")
	blocks, err := filepath.Glob(filepath.Join(dir, "*.blk"))
	require.NoError(t, err)
	require.Greater(t, len(blocks), 1, "a block at the end of the log would be fetched again from the others")
	block := filepath.Join(dir, "1.blk")
	data, err := os.ReadFile(block)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(block, data, 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "index.db")))
}

// streamDir is where a node keeps the stream.
func streamDir(p *natstest.Process) string {
	return filepath.Join(p.Dir(), "jetstream", "$G", "streams", stream)
}

// promote makes a node the leader of the stream, and of the consumer from which the queue's jobs come.
func (c *crew) promote(cluster *natstest.Cluster, p *natstest.Process) {
	c.t.Helper()
	body := fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, p.Name())
	queue := "ready-" + c.cfg.Queue
	for what, leader := range map[string]func(context.Context) (string, error){
		"STREAM.LEADER.STEPDOWN." + stream: func(ctx context.Context) (string, error) {
			s, err := c.js.Stream(ctx, stream)
			if err != nil {
				return "", err
			}
			return s.CachedInfo().Cluster.Leader, nil
		},
		"CONSUMER.LEADER.STEPDOWN." + stream + "." + queue: func(ctx context.Context) (string, error) {
			consumer, err := c.js.Consumer(ctx, stream, queue)
			if err != nil {
				return "", err
			}
			return consumer.CachedInfo().Cluster.Leader, nil
		},
	} {
		c.until(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			name, err := leader(ctx)
			if err != nil || name == p.Name() {
				return err
			}
			m, err := c.js.Conn().RequestWithContext(ctx, "$JS.API."+what, body)
			if err != nil {
				return err
			}
			return fmt.Errorf("%s leads, not %s: %s", name, p.Name(), m.Data)
		})
	}
}

// rot is a cluster with large jobs that wait for a worker, and a node that is damaged and does not lead.
func rot(t *testing.T) (*natstest.Cluster, *crew, *natstest.Process) {
	heavy(t)
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	c := newCrew(t, cluster.URLs(), workerConfig{Replicas: 3, Lease: 2 * time.Second})
	for i := range 600 {
		c.enqueue(c.large("waits", i, 20<<10), false)
	}
	cluster.WaitStreamCurrent(t, stream)
	victim := otherThan(cluster, cluster.StreamLeader(t, stream))
	victim.Stop()
	damage(t, victim)
	victim.Restart(t)
	cluster.WaitReady(t)
	cluster.WaitStreamCurrent(t, stream) // so it says, and so it would go on
	c.faulted()
	good, bad := replicaOn(t, otherThan(cluster, victim)), replicaOn(t, victim)
	t.Logf("whole: %+v; damaged: %+v", good, bad)
	require.Less(t, bad.Messages, good.Messages, "messages of the damaged replica")
	require.Equal(t, good.Last, bad.Last, "where the replicas end")
	says := c.doctorSays("copies", cluster.Nodes()...)
	require.Equal(t, doctor.Error, says.Level, says.Text)
	require.Equal(t, victim.Name(), says.Facts["node"], says.Text)
	require.Contains(t, says.Advice, "delete '"+streamDir(victim)+"'")
	return cluster, c, victim
}

// A block of a replica has gone bad. The server takes it for current; that it has fewer messages than the others is what
// tells. Where its copy is made anew before it leads, nothing is lost.
func TestReplicaDamagedAndMadeAnew(t *testing.T) {
	cluster, c, victim := rot(t)
	victim.Stop()
	require.NoError(t, os.RemoveAll(streamDir(victim)))
	victim.Restart(t)
	cluster.WaitReady(t)
	cluster.WaitStreamCurrent(t, stream)
	c.until(func() error {
		if says := c.doctorSays("copies", cluster.Nodes()...); says.Level != doctor.OK {
			return errors.New(says.Text)
		}
		return nil
	})
	c.promote(cluster, victim)
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 50*time.Millisecond)
	c.progress(600)
	c.finish()
	c.check(amnesia)
	c.dismiss(hands...)
}

// A damaged replica that leads passes its gaps by; once its consumer has, the others delete what stood there as well.
func TestReplicaDamagedLeads(t *testing.T) {
	cluster, c, victim := rot(t)
	c.promote(cluster, victim)
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 50*time.Millisecond)
	c.progress(500)
	c.promote(cluster, otherThan(cluster, victim))
	c.progress(40)
	c.finish()
	r := amnesia
	r.excuse = "jobs in a damaged block, whose replica the server let lead"
	c.check(r)
	c.dismiss(hands...)
}
