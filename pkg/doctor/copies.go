package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/redact"
)

const (
	// copyLooks is in how many looks on end two copies have to differ, in the same way and at the same sequence, before one
	// of them counts as damaged: what one node has done already, another does a moment later.
	copyLooks = 4
	copyEvery = 300 * time.Millisecond
	// copyChance is how soon it is looked again where copies were at different sequences, as they are under load.
	copyChance = 50 * time.Millisecond
	// maxJsz bounds what is read of a server's answer.
	maxJsz = 32 << 20

	adviceEveryNode = "name the monitoring port of every node (--monitor URL, once for each)"
)

// holding is what a node itself says that it has of a stream; the server's own word for whether it is current goes by
// the log of the replicas alone, and not by what is left of their messages.
type holding struct {
	Messages uint64 `json:"messages"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
	Deleted  int    `json:"num_deleted"`

	dir string // where the node keeps it
}

// gap is by how much two copies that end at the same sequence differ.
type gap struct {
	messages int64
	first    int64
	deleted  int
}

// copies are those of one stream, by their nodes, over several looks.
type copies struct {
	info  *jetstream.StreamInfo
	last  map[string]holding // as the last look found them
	pairs map[[2]string]*pair
}

// pair is what was found of two copies.
type pair struct {
	alike bool // they were, once
	looks int  // on end at which they differed by gap
	gap   gap
}

// damaged reports whether the difference stands.
func (p *pair) damaged() bool { return !p.alike && p.looks >= copyLooks }

// lookAtCopies compares the copies of each stream. A bit that flipped on a node's disk takes a block of messages out of its
// copy; the server takes that for current, and lets it lead.
func (e *exam) lookAtCopies(ctx context.Context) error {
	var all []*copies
	known := false
	for _, name := range e.names.all() {
		info := e.streams[name]
		known = known || info != nil
		if info != nil && info.Config.Replicas > 1 && info.Cluster != nil {
			all = append(all, &copies{info: info, pairs: make(map[[2]string]*pair)})
		}
	}
	switch {
	case !known:
		return errUnknown
	case len(all) == 0:
		e.ok("each stream has one copy", nil)
		return nil
	case len(e.monitors) == 0:
		e.unchecked("a copy that is damaged is seen only on the servers' monitoring ports: the server takes it for current",
			adviceEveryNode, nil)
		return nil
	}
	for {
		views, err := e.askHoldings(ctx)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			e.unchecked(redact.Text(err.Error()), "see that the monitoring of every node can be asked for /jsz", nil)
			return nil
		}
		settled, every := true, copyChance
		for _, c := range all {
			c.look(views)
			settled = settled && c.settled()
			if c.differs() {
				every = copyEvery
			}
		}
		if settled || e.late(ctx) {
			break
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
	var unseen []string
	for _, c := range all {
		e.tellCopies(c)
		unseen = append(unseen, c.unseen()...)
	}
	if slices.Sort(unseen); len(unseen) > 0 {
		unseen = slices.Compact(unseen)
		e.unchecked("the copies on nodes whose monitoring was not named: "+strings.Join(unseen, ", "),
			adviceEveryNode, map[string]any{"nodes": unseen})
	}
	if !e.found() {
		e.ok("the copies of each stream hold the same on all nodes", map[string]any{"streams": len(all)})
	}
	return nil
}

// view is what one node has, by the streams' names.
type view struct {
	node    string
	streams map[string][]holdingOf
}

type holdingOf struct {
	holding
	created time.Time // tells a stream from those of the same name in other accounts
}

// askHoldings asks all nodes at the same time, so that their answers are of nearly the same moment.
func (e *exam) askHoldings(ctx context.Context) ([]view, error) {
	views, errs := make([]view, len(e.monitors)), make([]error, len(e.monitors))
	var wg sync.WaitGroup
	for i, m := range e.monitors {
		wg.Go(func() { views[i], errs[i] = m.askHoldings(ctx) })
	}
	wg.Wait()
	return views, errors.Join(errs...)
}

func (m *monitor) askHoldings(ctx context.Context) (view, error) {
	var answer struct {
		Accounts []struct {
			Name    string `json:"name"`
			Streams []struct {
				Name    string    `json:"name"`
				Created time.Time `json:"created"`
				State   holding   `json:"state"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := askMonitoring(ctx, m.root, "/jsz", "accounts=true&streams=true&limit=100000", maxJsz, &answer); err != nil {
		return view{}, err
	}
	out := view{m.Name, make(map[string][]holdingOf)}
	for _, a := range answer.Accounts {
		for _, s := range a.Streams {
			s.State.dir = filepath.Join(m.JetStream.Config.StoreDir, a.Name, "streams", s.Name)
			out.streams[s.Name] = append(out.streams[s.Name], holdingOf{s.State, s.Created})
		}
	}
	return out, nil
}

// look compares what the nodes have now. Copies that end at different sequences say nothing: one is a moment behind.
func (c *copies) look(views []view) {
	c.last = make(map[string]holding)
	for _, v := range views {
		for _, h := range v.streams[c.info.Config.Name] {
			if h.created.Equal(c.info.Created) {
				c.last[v.node] = h.holding
			}
		}
	}
	nodes := c.seen()
	for i, a := range nodes {
		for _, b := range nodes[i+1:] {
			p := c.pairs[[2]string{a, b}]
			if p == nil {
				p = &pair{}
				c.pairs[[2]string{a, b}] = p
			}
			if x, y := c.last[a], c.last[b]; x.Last == y.Last {
				p.compare(gap{int64(x.Messages - y.Messages), int64(x.First - y.First), x.Deleted - y.Deleted})
			}
		}
	}
}

func (p *pair) compare(g gap) {
	switch {
	case g == gap{}:
		p.alike, p.looks = true, 0
	case g == p.gap:
		p.looks++
	default:
		p.gap, p.looks = g, 1
	}
}

// seen are the nodes that were found to have a copy.
func (c *copies) seen() []string {
	out := make([]string, 0, len(c.last))
	for node := range c.last {
		out = append(out, node)
	}
	slices.Sort(out)
	return out
}

// settled reports whether more looks would tell nothing more.
func (c *copies) settled() bool {
	for _, p := range c.pairs {
		if !p.alike && !p.damaged() {
			return false
		}
	}
	return true
}

// differs reports whether copies were found to differ that were never alike.
func (c *copies) differs() bool {
	for _, p := range c.pairs {
		if !p.alike && p.looks > 0 {
			return true
		}
	}
	return false
}

// unseen are the nodes that have a copy, as the stream's leader says, and were not asked.
func (c *copies) unseen() []string {
	var out []string
	if c.info.Cluster.Leader != "" {
		out = append(out, c.info.Cluster.Leader)
	}
	for _, r := range c.info.Cluster.Replicas {
		out = append(out, r.Name)
	}
	return slices.DeleteFunc(out, func(node string) bool {
		_, seen := c.last[node]
		return seen
	})
}

// damaged are the nodes whose copies lack what others have, each with one to compare it with: of two that differ, the one
// that fewer others agree with, or else the one with fewer messages.
func (c *copies) damaged() map[string]string {
	agree := make(map[string]int)
	for nodes, p := range c.pairs {
		if p.alike {
			agree[nodes[0]]++
			agree[nodes[1]]++
		}
	}
	out := make(map[string]string)
	for nodes, p := range c.pairs {
		if !p.damaged() {
			continue
		}
		bad, good := nodes[0], nodes[1]
		if cmp.Or(cmp.Compare(agree[bad], agree[good]), cmp.Compare(c.last[bad].Messages, c.last[good].Messages)) > 0 {
			bad, good = good, bad
		}
		if other := out[bad]; other == "" || good < other {
			out[bad] = good
		}
	}
	return out
}

// tellCopies says what was found of a stream's copies.
func (e *exam) tellCopies(c *copies) {
	name, bad := c.info.Config.Name, c.damaged()
	for _, node := range c.seen() {
		whole, ok := bad[node]
		if !ok {
			continue
		}
		have, want := c.last[node], c.last[whole]
		text := fmt.Sprintf("%s: the copy on node %s has %d messages from %d on, that on %s has %d from %d on, and both end at %d: it is damaged, and the server takes it for current. ",
			name, node, have.Messages, have.First, whole, want.Messages, want.First, have.Last)
		advice := fmt.Sprintf("restart no other node before. With a spare node in the cluster: nats stream cluster peer-remove %s %s. Without, the server refuses that: stop the server %s, delete %s, and start it; its copy is made anew from the others. Then look again, and see to the node's disk",
			name, node, node, word(have.dir))
		if c.info.Cluster.Leader == node {
			text += "It leads: jobs that it lacks are passed by, and in the end deleted on the others too"
			advice = fmt.Sprintf("at once: nats stream cluster step-down %s --preferred %s. Then ", name, whole) + advice
		} else {
			text += "Where it leads, the stream or a consumer, jobs that it lacks are passed by, and in the end deleted on the others too"
			advice = "do not let it lead: " + advice
		}
		e.fail(text, advice, map[string]any{
			"stream": name, "node": node, "messages": have.Messages, "firstSeq": have.First, "lastSeq": have.Last,
			"whole": whole, "wholeMessages": want.Messages, "wholeFirstSeq": want.First,
		})
	}
	if len(bad) > 0 {
		return
	}
	var undecided []string
	for nodes, p := range c.pairs {
		if !p.alike {
			undecided = append(undecided, nodes[0]+" and "+nodes[1])
		}
	}
	if len(undecided) > 0 {
		slices.Sort(undecided)
		e.unchecked(fmt.Sprintf("%s: too much is written to it, or a node is behind: the copies on %s were never seen at the same sequence for long enough", name, strings.Join(undecided, ", on ")),
			"look again when less is written, or with more time (--timeout)", map[string]any{"stream": name})
	}
}
