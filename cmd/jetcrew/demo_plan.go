package main

import (
	"fmt"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// What the demo's jobs have in common.
const (
	demoSpace    = "demo"
	demoLease    = 2 * time.Second
	demoSlots    = 8
	demoDelay    = 3 * time.Second
	demoAttempts = 20 // never exhausted by the kill
	flakyJobs    = 5
	poisonID     = "poison"
	giveUpID     = "give-up"
	poison       = `{"type":"demo.sha256", this is no JSON`
	giveUpReason = "this job always gives up"
)

// planned is one job and how it is meant to end.
type planned struct {
	spec   job.Spec
	file   *demoFile // whose digest it is to find; nil for none
	end    job.Status
	fails  int // attempts that fail by plan
	reason string
	raw    string // published as it is, instead of an enqueued spec
}

// fileInput is the input of a job that reads a file.
type fileInput struct {
	Path  string `json:"path"`
	Fails int    `json:"fails,omitzero"` // how many first attempts fail
}

// newPlan makes one job per file, and the two that end badly. The first few fail at first, the last is
// delayed; with very few files one job is several of these.
func newPlan(files []demoFile) []planned {
	plan := make([]planned, 0, len(files)+2)
	for i := range files {
		p := planned{file: &files[i], end: job.Succeeded, spec: job.Spec{
			ID: fmt.Sprintf("file-%05d", i+1), Space: demoSpace, Type: "demo.sha256", MaxAttempts: demoAttempts,
			Retry: &job.Retry{Base: 200 * time.Millisecond, Max: time.Second},
		}}
		if i < flakyJobs {
			p.fails = 1 + i%2
		}
		if i == len(files)-1 {
			p.spec.Delay = demoDelay
		}
		p.spec.Input = mustEncode(fileInput{files[i].path, p.fails})
		plan = append(plan, p)
	}
	return append(plan,
		planned{end: job.Dead, reason: giveUpReason, spec: job.Spec{
			ID: giveUpID, Space: demoSpace, Type: "demo.give-up", MaxAttempts: demoAttempts,
		}},
		planned{end: job.Dead, raw: poison, spec: job.Spec{ID: poisonID, Space: demoSpace}},
	)
}

// pauseFor is how long each handler pauses: the more files, the shorter, some four seconds in all.
func pauseFor(files int) time.Duration {
	return min(max(4*time.Second*demoSlots/time.Duration(files), 2*time.Millisecond), 300*time.Millisecond)
}

// mustEncode writes a value of this program that can always be written.
func mustEncode(v fileInput) []byte {
	b, err := job.Encode(v)
	if err != nil {
		panic(err)
	}
	return b
}
