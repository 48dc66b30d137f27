package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// farBehind is how many operations a replica may be behind before it is told of.
	farBehind = 1000
	// silent is for how long a replica that is not current may not have been heard of before it counts as away: a server
	// that was killed is called offline much later.
	silent = 10 * time.Second
	// currentLook is how often it is looked before a replica is not current: under load, each of them is behind for moments.
	currentLook  = 4
	currentEvery = 500 * time.Millisecond
)

// lookAtReplicas looks at where the streams stand, as far as earlier checks saw them.
func (e *exam) lookAtReplicas(ctx context.Context) error {
	clustered, known := e.nc.ConnectedClusterName() != "", false
	if clustered {
		if err := e.awaitCurrent(ctx); err != nil {
			return err
		}
	}
	for _, name := range e.names.all() {
		if info := e.streams[name]; info != nil {
			known = true
			for _, f := range replicas(name, clustered, e.cfg.Replicas, info) {
				e.find(f.Level, f.Text, f.Advice, f.Facts)
			}
		}
	}
	switch {
	case !known:
		return errUnknown
	case e.found():
	case !clustered:
		e.ok("a single server: the streams have one replica each", nil)
	default:
		e.ok("all replicas are there and current", nil)
	}
	return nil
}

// awaitCurrent gives replicas that are not current a moment.
func (e *exam) awaitCurrent(ctx context.Context) error {
	for look := 1; look < currentLook; look++ {
		var behind []string
		for _, name := range e.names.all() {
			if info := e.streams[name]; info != nil && info.Cluster != nil && (info.Cluster.Leader == "" ||
				slices.ContainsFunc(info.Cluster.Replicas, func(r *jetstream.PeerInfo) bool { return !r.Current })) {
				behind = append(behind, name)
			}
		}
		if len(behind) == 0 {
			return nil
		}
		if err := pause(ctx, currentEvery); err != nil {
			return err
		}
		for _, name := range behind {
			if _, err := e.stream(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// replicas says what is wrong with the replicas of one stream.
func replicas(name string, clustered bool, want int, info *jetstream.StreamInfo) []Finding {
	var out []Finding
	have := info.Config.Replicas
	find := func(l Level, text, advice string) {
		out = append(out, Finding{Level: l, Text: text, Advice: advice, Facts: map[string]any{"stream": name, "replicas": have}})
	}
	edit := fmt.Sprintf("give it three: nats stream edit %s --replicas 3, and JETCREW_REPLICAS=3 for what is made later", name)
	switch {
	case clustered && have == 1:
		find(Warning, name+" has one replica in a cluster: while its one node is down nothing works, and with the node's disk all of it is lost", edit)
	case clustered && have == 2:
		find(Warning, name+" has two replicas: while either node is down nothing works, since both are needed to agree", edit)
	case have < want:
		find(Warning, fmt.Sprintf("%s has %s, JETCREW_REPLICAS says %d", name, plural(have, "replica"), want),
			fmt.Sprintf("nats stream edit %s --replicas %d", name, want))
	}
	if !clustered || info.Cluster == nil {
		return out
	}
	if info.Cluster.Leader == "" {
		find(Error, name+" has no leader: nothing can be written to it", "see which nodes are down (nats server report jetstream): a majority of its replicas has to be up")
	}
	var offline, behind []string
	for _, r := range info.Cluster.Replicas {
		switch {
		case r.Offline, !r.Current && r.Active > silent:
			offline = append(offline, r.Name)
		case !r.Current || r.Lag > farBehind:
			behind = append(behind, fmt.Sprintf("%s (%d behind)", r.Name, r.Lag))
		}
	}
	if len(offline) > 0 {
		find(Error, fmt.Sprintf("%s: of its %d replicas, offline: %s", name, have, strings.Join(offline, ", ")),
			"bring the node back before another one fails")
	}
	if len(behind) > 0 {
		find(Warning, fmt.Sprintf("%s: replicas that are not current: %s", name, strings.Join(behind, ", ")),
			"wait until they have caught up before you restart another node; if they do not, look at the node's disk and network")
	}
	return out
}
