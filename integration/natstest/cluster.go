package natstest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Cluster is several server processes with JetStream that are one cluster.
type Cluster struct {
	nodes []*Process
}

// StartCluster starts a cluster of n server processes, named n1 and so on, and
// returns when it is ready. The processes are stopped when the test ends. Each of
// adjust may change a node's configuration, except its name; it gets them in their order.
func StartCluster(t testing.TB, n int, adjust ...func(*ServerConfig)) *Cluster {
	t.Helper()
	for try := 1; ; try++ {
		c := newCluster(t, n, adjust)
		for _, p := range c.nodes {
			p.start()
		}
		clash := false
		for _, p := range c.nodes {
			if err := p.waitReady(); err != nil {
				if try == 3 || !p.portClash() {
					t.Fatalf("natstest: %v", err)
				}
				clash = true
			}
		}
		if !clash {
			c.WaitReady(t)
			return c
		}
		for _, p := range c.nodes {
			p.Kill()
		}
	}
}

func newCluster(t testing.TB, n int, adjust []func(*ServerConfig)) *Cluster {
	t.Helper()
	ports := reservePorts(t, n)
	cfgs, routes := make([]ServerConfig, n), make([]string, n)
	for i, port := range ports {
		for _, f := range adjust {
			f(&cfgs[i])
		}
		cfgs[i].Name = fmt.Sprintf("n%d", i+1)
		if cfgs[i].Host == "" {
			cfgs[i].Host = loopback
		}
		routes[i] = fmt.Sprintf("nats://%s:%d", cfgs[i].Host, port)
	}
	c := &Cluster{}
	for i, cfg := range cfgs {
		block := fmt.Sprintf("cluster { name: jetcrew, listen: \"%s:%d\", routes: [%s] }",
			cfg.Host, ports[i], strings.Join(routes, ", "))
		c.nodes = append(c.nodes, newProcess(t, cfg, block))
	}
	return c
}

// URLs is every node's URL, comma-separated, as nats.Connect takes it.
func (c *Cluster) URLs() string {
	urls := make([]string, len(c.nodes))
	for i, p := range c.nodes {
		urls[i] = p.URL()
	}
	return strings.Join(urls, ",")
}

// Nodes are the cluster's processes.
func (c *Cluster) Nodes() []*Process { return c.nodes }

// Node is the process with an index from 0.
func (c *Cluster) Node(i int) *Process { return c.nodes[i] }

// NodeNamed is the process with a server name, such as a stream's leader; nil
// if there is none.
func (c *Cluster) NodeNamed(name string) *Process {
	for _, p := range c.nodes {
		if p.name == name {
			return p
		}
	}
	return nil
}

// WaitReady waits until every process is there, healthy, and agrees on a leader
// that finds all of them current.
func (c *Cluster) WaitReady(t testing.TB) {
	t.Helper()
	Eventually(t, 2*patience, c.ready, "the cluster is not ready")
}

func (c *Cluster) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	leader := ""
	for _, p := range c.nodes {
		if err := p.healthy(""); err != nil {
			return err
		}
		meta, err := p.metaGroup(ctx)
		switch {
		case err != nil:
			return err
		case meta.Leader == "":
			return fmt.Errorf("server %s knows no leader", p.name)
		case leader != "" && meta.Leader != leader:
			return fmt.Errorf("server %s takes %s for the leader, not %s", p.name, meta.Leader, leader)
		}
		leader = meta.Leader
		if leader != p.name {
			continue
		}
		if len(meta.Replicas) != len(c.nodes)-1 {
			return fmt.Errorf("the leader has %d peers", len(meta.Replicas))
		}
		for _, r := range meta.Replicas {
			if r.Offline || !r.Current {
				return fmt.Errorf("peer %s is not current", r.Name)
			}
		}
	}
	return nil
}

// StreamLeader waits until a stream has a leader, and returns its process.
func (c *Cluster) StreamLeader(t testing.TB, stream string) *Process {
	t.Helper()
	js := c.jetStream(t)
	var leader *Process
	Eventually(t, patience, func() error {
		info, err := streamInfo(js, stream)
		if err != nil {
			return err
		}
		if info.Cluster != nil {
			leader = c.NodeNamed(info.Cluster.Leader)
		}
		if leader == nil {
			return fmt.Errorf("it has no leader")
		}
		return nil
	}, "stream", stream)
	return leader
}

// WaitStreamCurrent waits until a stream has a leader and all its replicas are
// there and current.
func (c *Cluster) WaitStreamCurrent(t testing.TB, stream string) {
	t.Helper()
	js := c.jetStream(t)
	Eventually(t, patience, func() error {
		info, err := streamInfo(js, stream)
		if err != nil {
			return err
		}
		if info.Cluster == nil || info.Cluster.Leader == "" {
			return fmt.Errorf("it has no leader")
		}
		if got := len(info.Cluster.Replicas) + 1; got != info.Config.Replicas {
			return fmt.Errorf("%d of %d replicas", got, info.Config.Replicas)
		}
		for _, r := range info.Cluster.Replicas {
			if r.Offline || !r.Current {
				return fmt.Errorf("replica %s is not current", r.Name)
			}
		}
		return nil
	}, "stream", stream)
}

// jetStream connects for a question; the connection goes with the test.
func (c *Cluster) jetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(Connect(t, c.URLs(), nats.RetryOnFailedConnect(true)))
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	return js
}

func streamInfo(js jetstream.JetStream, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}
