package doctor

import (
	"strings"

	"github.com/jetcrew/jetcrew/kvbucket"
)

// names are those of a namespace's streams and subjects, as docs/wire-format.md has them.
type names struct{ ns string }

func (n names) upper() string     { return strings.ToUpper(n.ns) }
func (n names) jobs() string      { return n.upper() + "_JOBS" }
func (n names) workers() string   { return "KV_" + n.upper() + "_WORKERS" }
func (n names) kv() string        { return kvbucket.Stream(n.ns) }
func (n names) schedules() string { return "KV_" + n.upper() + "_SCHEDULES" }
func (n names) leader() string    { return "KV_" + n.upper() + "_LEADER" }

// all are the streams, the jobs' first.
func (n names) all() []string {
	return []string{n.jobs(), n.workers(), n.kv(), n.schedules(), n.leader()}
}

func (n names) job(state, rest string) string { return n.ns + ".job." + state + "." + rest }

// What the checks need. Who may not open the store, may not be told what the store tells.

func (n names) needsJobs() []string {
	return []string{"$JS.API.INFO", "$JS.API.STREAM.INFO." + n.jobs(), "$JS.API.STREAM.INFO." + n.workers()}
}

func (n names) needsConsumers() []string {
	return append(n.needsJobs(), "$JS.API.CONSUMER.LIST."+n.jobs(), "$JS.API.DIRECT.GET."+n.jobs())
}

func (n names) needsQueues() []string {
	return append(n.needsConsumers(), "$JS.API.DIRECT.GET."+n.workers())
}

func (n names) needsReads() []string { return n.needsConsumers() }

func (n names) needsLeader() []string {
	return []string{"$JS.API.STREAM.INFO." + n.leader(), "$JS.API.DIRECT.GET." + n.leader(), "$JS.API.STREAM.MSG.GET." + n.leader()}
}

func (n names) needsSchedules() []string {
	return []string{"$JS.API.STREAM.INFO." + n.schedules(), "$JS.API.DIRECT.GET." + n.schedules()}
}

// needsInfo is the right to look at one stream.
func needsInfo(stream func(names) string) func(names) []string {
	return func(n names) []string { return []string{"$JS.API.INFO", "$JS.API.STREAM.INFO." + stream(n)} }
}
