package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// How much of a limit may be used, in percent.
const (
	nearLimit = 80
	atLimit   = 95
)

// lookAtAccount compares what the account uses with its limits. It has one set of them, or one for each number of
// replicas.
func (e *exam) lookAtAccount(context.Context) error {
	if e.account == nil {
		return errUnknown
	}
	e.compare("", e.account.Tier)
	for _, name := range slices.Sorted(maps.Keys(e.account.Tiers)) {
		e.compare(" of tier "+name, e.account.Tiers[name])
	}
	if !e.found() {
		t := e.account.Tier
		e.ok("the account is far from its limits", map[string]any{
			"streams": t.Streams, "consumers": t.Consumers, "storage": t.Store, "memory": t.Memory,
			"maxStreams": t.Limits.MaxStreams, "maxConsumers": t.Limits.MaxConsumers,
			"maxStorage": t.Limits.MaxStore, "maxMemory": t.Limits.MaxMemory,
		})
	}
	return nil
}

func (e *exam) compare(of string, t jetstream.Tier) {
	for _, l := range []struct {
		what   string
		used   uint64
		limit  int64
		show   func(uint64) string
		so     string // what comes of it at the limit
		advice string
	}{
		{"streams", uint64(t.Streams), int64(t.Limits.MaxStreams), number, "", "raise max_streams of the account, or delete streams that nobody needs"},
		{"consumers", uint64(t.Consumers), int64(t.Limits.MaxConsumers), number, "", "raise max_consumers of the account (a queue has two), or delete queues that nobody needs (jetcrew queue delete)"},
		{"storage", t.Store, t.Limits.MaxStore, size, noRoom, e.adviceRoom("max_file of the account, and max_file_store of the servers,")},
		{"memory", t.Memory, t.Limits.MaxMemory, size, "", "raise max_mem of the account"},
	} {
		if l.limit <= 0 { // none
			continue
		}
		percent := l.used * 100 / uint64(l.limit)
		facts := map[string]any{"limit": l.what, "used": l.used, "max": l.limit, "percent": percent}
		text := fmt.Sprintf("the account%s uses %s of %s %s (%d %%)", of, l.show(l.used), l.show(uint64(l.limit)), l.what, percent)
		switch {
		case percent >= atLimit:
			e.fail(text+": "+cmp.Or(l.so, "at the limit, the server refuses what comes"), l.advice, facts)
		case percent >= nearLimit:
			e.warn(text, l.advice, facts)
		}
	}
}

// noRoom is what comes of a full store. Claims and ends of jobs are writes as well.
const noRoom = "at the limit it refuses what comes, and what is there does not end either: workers keep their outcomes until there is room"

// adviceRoom is what to do about a store that fills up. What is purged needs no room for it.
func (e *exam) adviceRoom(limits string) string {
	return fmt.Sprintf("purge the records of jobs that have ended: nats stream purge %s --subject '%s'; keep them for a shorter time from now on (jetcrew queue configure NAME --retention-succeeded 1h); or raise %s if the disks allow it",
		e.names.jobs(), e.names.job("succeeded", ">"), limits)
}

func number(n uint64) string { return fmt.Sprint(n) }
