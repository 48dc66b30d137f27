package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const adviceSync = "where that is not enough, set sync_interval: always in the servers' jetstream block; docs/deploy.md (what an acknowledgement is worth) says what it costs"

// lookAtDurability tells what it is worth that a job was acknowledged.
func (e *exam) lookAtDurability(context.Context) error {
	jobs := e.streams[e.names.jobs()]
	survives := "one replica survives a crash of the server's process, and not the loss of its disk"
	one := jobs == nil || jobs.Config.Replicas < 3
	if !one {
		survives = fmt.Sprintf("%d replicas survive the loss of a node and of its disk", jobs.Config.Replicas)
	}
	if len(e.monitors) == 0 {
		e.unchecked("sync_interval is seen only on the servers' monitoring port; unless it is set, it is two minutes, and what was acknowledged within it is lost when "+loses(one)+"; "+survives,
			"name the monitoring port of each server (--monitor http://127.0.0.1:8222); "+adviceSync, nil)
		return nil
	}
	var lazy []string
	intervals := make(map[string]any)
	var worst time.Duration
	for _, m := range e.monitors {
		c := m.JetStream.Config
		if c.SyncAlways {
			intervals[m.Name] = "always"
			continue
		}
		intervals[m.Name] = c.SyncInterval.String()
		lazy = append(lazy, m.Name)
		worst = max(worst, c.SyncInterval)
	}
	facts := map[string]any{"syncInterval": intervals}
	text := fmt.Sprintf("what was acknowledged within the last %s (sync_interval of %s) is lost when %s; %s",
		worst, strings.Join(lazy, ", "), loses(one), survives)
	switch {
	case len(lazy) == 0:
		e.ok("what was acknowledged is on the disk (sync_interval: always on "+plural(len(e.monitors), "node")+"); "+survives, facts)
	case one:
		e.warn(text, adviceSync, facts)
	default:
		e.ok(text, facts)
	}
	return nil
}

// loses is when a power cut loses jobs that were acknowledged.
func loses(one bool) string {
	if one {
		return "the server's machine loses its power"
	}
	return "two machines lose their power at the same time"
}

// lookAtDisk compares what the servers may store with what their disks have left. A server whose disk is full before its
// limit is met does not refuse what comes: it stops answering.
func (e *exam) lookAtDisk(context.Context) error {
	const advice = "set max_file_store in the server's jetstream block, a fifth below the size of the volume"
	if len(e.monitors) == 0 {
		e.unchecked("max_file_store is seen only on the servers' monitoring port", "name it (--monitor http://127.0.0.1:8222) on each server's machine; "+advice, nil)
		return nil
	}
	for _, m := range e.monitors {
		c := m.JetStream.Config
		used := uint64(0)
		if m.JetStream.Stats != nil {
			used = m.JetStream.Stats.Store
		}
		facts := map[string]any{"node": m.Name, "maxFileStore": c.MaxStore, "used": used}
		limit := uint64(max(c.MaxStore, 0))
		e.lookAtRoom(m.Name, used, limit, facts)
		free, err := uint64(0), errElsewhere
		if m.local {
			free, err = freeSpace(c.StoreDir)
		}
		if err != nil {
			e.unchecked(fmt.Sprintf("node %s: the disk of its store is not this machine's, or cannot be looked at", m.Name),
				"run jetcrew doctor on the server's machine; "+advice, facts)
			continue
		}
		facts["free"] = free
		if left := limit - min(used, limit); limit == 0 || left > free {
			e.fail(fmt.Sprintf("node %s may store another %s (max_file_store), and its disk has %s left: when it is full, writes are not answered, and jobs that have ended can come back after the restart",
				m.Name, size(left), size(free)), advice, facts)
			e.lookAtVolume(m.Name, used, free, facts)
			continue
		}
		e.ok(fmt.Sprintf("node %s meets its limit (max_file_store %s) before its disk is full", m.Name, size(limit)), facts)
	}
	return nil
}

// lookAtRoom compares what a node stores with what it may.
func (e *exam) lookAtRoom(node string, used, limit uint64, facts map[string]any) {
	if limit == 0 {
		return
	}
	percent := used * 100 / limit
	text := fmt.Sprintf("node %s stores %s of the %s that it may (max_file_store, %d %%)", node, size(used), size(limit), percent)
	switch advice := e.adviceRoom("max_file_store"); {
	case percent >= atLimit:
		e.fail(text+": "+noRoom, advice, facts)
	case percent >= nearLimit:
		e.warn(text, advice, facts)
	}
}

// lookAtVolume compares what a node stores with what its disk has left, where that is less than the node may store.
func (e *exam) lookAtVolume(node string, used, free uint64, facts map[string]any) {
	if used == 0 {
		return
	}
	percent := used * 100 / (used + free)
	text := fmt.Sprintf("node %s stores %s, and its disk has room for another %s (%d %% of both)", node, size(used), size(free), percent)
	switch {
	case percent >= atLimit:
		e.fail(text, e.adviceRoom("the size of the volume"), facts)
	case percent >= nearLimit:
		e.warn(text, e.adviceRoom("the size of the volume"), facts)
	}
}
