package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/natsenv"
	"github.com/jetcrew/jetcrew/pkg/redact"
)

// smallPayload is a limit of messages below which jobs of a usual size may not fit.
const smallPayload = 64 << 10

// dialTimeout bounds the wait for one node.
const dialTimeout = 2 * time.Second

// node is what a server said of itself when it was connected to.
type node struct {
	address, name, version string
	err                    error
}

// lookAtVersions connects to each node that is known: any of them may come to lead a stream.
func (e *exam) lookAtVersions(ctx context.Context) error {
	nodes := e.ask(ctx)
	own := node{name: e.nc.ConnectedServerName(), version: e.nc.ConnectedServerVersion()}
	if !slices.ContainsFunc(nodes, func(n node) bool { return n.name == own.name }) {
		nodes = append(nodes, own)
	}
	e.versions(nodes)
	return nil
}

// versions compares what the nodes run.
func (e *exam) versions(nodes []node) {
	facts := map[string]any{"minimum": natsenv.MinServer}
	versions := make(map[string]any)
	var seen []string
	bad := false
	for _, n := range nodes {
		switch {
		case n.err != nil:
			e.warn(fmt.Sprintf("node %s cannot be connected to: %s", n.address, redact.Text(n.err.Error())),
				"see that it runs; the others go on without it for as long as they are a majority", map[string]any{"address": n.address})
		case !natsenv.NewEnough(n.version):
			bad = true
			e.fail(fmt.Sprintf("node %s runs nats-server %s, jetcrew needs %s or later", n.name, n.version, natsenv.MinServer),
				"upgrade it", map[string]any{"node": n.name, "version": n.version, "minimum": natsenv.MinServer})
		}
		if n.err == nil {
			versions[n.name] = n.version
			if !slices.Contains(seen, n.version) {
				seen = append(seen, n.version)
			}
		}
	}
	facts["nodes"] = versions
	switch {
	case len(seen) > 1:
		slices.Sort(seen)
		e.warn(fmt.Sprintf("the nodes run different versions: %s", strings.Join(seen, ", ")), "bring all of them to the newest", facts)
	case !bad:
		e.ok(fmt.Sprintf("nats-server %s on %s", seen[0], plural(len(versions), "node")), facts)
	}
}

// ask connects to every address that is known, the way the connection was made.
func (e *exam) ask(ctx context.Context) []node {
	if e.nodes.InProcessServer != nil {
		return nil
	}
	urls := e.addresses()
	nodes := make([]node, len(urls))
	var wg sync.WaitGroup
	for i, u := range urls {
		wg.Go(func() { nodes[i] = e.meet(ctx, u) })
	}
	wg.Wait()
	var out []node
	for _, n := range nodes { // one node may have several addresses
		if n.err != nil || !slices.ContainsFunc(out, func(o node) bool { return o.err == nil && o.name == n.name }) {
			out = append(out, n)
		}
	}
	return out
}

// addresses are those that were given, and those that the servers told of.
func (e *exam) addresses() []string {
	given := slices.Clone(e.nodes.Servers)
	if len(given) == 0 {
		given = strings.Split(e.nodes.Url, ",")
	}
	var user *url.Userinfo
	var hosts, urls []string
	add := func(s string) {
		u, err := url.Parse(strings.TrimSpace(s))
		if err != nil || u.Host == "" || slices.Contains(hosts, u.Host) {
			return
		}
		if user == nil {
			user = u.User
		}
		if u.User == nil {
			u.User = user
		}
		hosts, urls = append(hosts, u.Host), append(urls, u.String())
	}
	for _, s := range given {
		if !strings.Contains(s, "://") {
			s = "nats://" + s
		}
		add(s)
	}
	for _, s := range e.nc.DiscoveredServers() {
		add(s)
	}
	return urls
}

// meet connects to one server for what it says of itself.
func (e *exam) meet(ctx context.Context, address string) node {
	n := node{address: address}
	if u, err := url.Parse(address); err == nil {
		n.address = u.Host
	}
	opts := e.nodes
	opts.Url, opts.Servers = "", []string{address}
	opts.AllowReconnect, opts.RetryOnFailedConnect, opts.IgnoreDiscoveredServers = false, false, true
	opts.Timeout = dialTimeout
	if deadline, ok := ctx.Deadline(); ok {
		opts.Timeout = max(min(opts.Timeout, time.Until(deadline)*3/4), time.Millisecond)
	}
	// The connection's events are its owner's, and this one is none of them.
	opts.ConnectedCB, opts.DisconnectedCB, opts.DisconnectedErrCB, opts.ReconnectedCB = nil, nil, nil, nil
	opts.ClosedCB, opts.DiscoveredServersCB, opts.LameDuckModeHandler = nil, nil, nil
	opts.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {}
	nc, err := opts.Connect()
	if err != nil {
		n.err = err
		return n
	}
	defer nc.Close()
	n.name, n.version = nc.ConnectedServerName(), nc.ConnectedServerVersion()
	return n
}

func (e *exam) lookAtPayload(context.Context) error {
	limit := e.nc.MaxPayload()
	facts := map[string]any{"maxPayload": limit}
	text := fmt.Sprintf("a message may have %s (max_payload)", size(uint64(limit)))
	if limit < smallPayload {
		e.warn(text+": jobs with a larger input, result or history are refused",
			"set max_payload in the servers' configuration to 64KB at least; 1MB is the default", facts)
		return nil
	}
	e.ok(text, facts)
	return nil
}

// lookAtInbox tries whether answers can come, and tells whose they are.
func (e *exam) lookAtInbox(ctx context.Context) error {
	facts := map[string]any{"prefix": e.inbox()}
	sub, err := e.nc.SubscribeSync(e.nc.NewInbox())
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	if err := e.nc.FlushWithContext(ctx); err != nil {
		return err
	}
	if e.wasDenied(sub.Subject) {
		e.fail(fmt.Sprintf("no answer can come: this user may not subscribe to %s.>", e.inbox()),
			"set JETCREW_INBOX_PREFIX to the prefix that the user was given (docs/nats/accounts.conf), or grant this one", facts)
		return nil
	}
	e.ok(fmt.Sprintf("answers come to %s.>", e.inbox()), facts)
	return nil
}

// wasDenied reports, right after a flush, whether the last thing that the server denied had to do with a subject.
func (e *exam) wasDenied(subject string) bool {
	err := e.nc.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), `"`+subject+`"`)
}

func (e *exam) lookAtJetStream(ctx context.Context) error {
	info, err := e.js.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		e.silent = true
		e.fail("JetStream is not enabled on "+e.nc.ConnectedServerName()+", or not for this user's account",
			"add a jetstream block to the server's configuration, and one to the account (docs/nats)", nil)
		return nil
	case err != nil:
		return fmt.Errorf("asking for JetStream: %w", err)
	}
	e.account = info
	facts := map[string]any{"cluster": e.nc.ConnectedClusterName()}
	if info.Domain != "" {
		facts["domain"] = info.Domain
	}
	if c := e.nc.ConnectedClusterName(); c != "" {
		e.ok("JetStream is on, in cluster "+c, facts)
	} else {
		e.ok("JetStream is on, on a single server", facts)
	}
	return nil
}

// plural is a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
