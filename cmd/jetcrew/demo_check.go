package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// settleSlack is how long after a job's recorded end a start still counts as one from before: instants are
// cut to milliseconds, and two clocks are compared.
const settleSlack = 100 * time.Millisecond

// check compares records, ledger and plan.
type check struct {
	lines  map[string][]entry // by job id
	killed int                // process id of the worker that was killed
	again  func(path string) (digest, error)

	problems []string
	right    int // digests
	changed  int // files that are not what they were, or are no more
}

func newCheck(lines []entry, killed int) *check {
	c := &check{lines: make(map[string][]entry), killed: killed, problems: []string{}}
	for _, e := range lines {
		c.lines[e.id] = append(c.lines[e.id], e)
	}
	return c
}

func (c *check) problem(p *planned, format string, args ...any) {
	c.problems = append(c.problems, p.spec.ID+": "+fmt.Sprintf(format, args...))
}

// judge looks at one job: its record (nil: none), and how many ends events told of.
func (c *check) judge(p *planned, j *job.Job, ends int) {
	if j == nil {
		c.problem(p, "lost: it has no record")
		return
	}
	if j.Status != p.end {
		c.problem(p, "is %s, planned was %s (error: %s)", j.Status, p.end, j.Error)
		return
	}
	if ends > 1 {
		c.problem(p, "was settled %d times", ends)
	}
	lines := c.lines[p.spec.ID]
	for _, e := range lines {
		if e.what == ledgerStart && e.at.After(j.UpdatedAt.Add(settleSlack)) {
			c.problem(p, "was run again %s after it had ended", e.at.Sub(j.UpdatedAt))
		}
	}
	switch {
	case p.raw != "":
		if string(j.Raw) != p.raw {
			c.problem(p, "the record does not hold the message's bytes")
		}
		if len(lines) > 0 {
			c.problem(p, "a handler ran, though it is no job")
		}
	case p.reason != "":
		if !strings.Contains(j.Error, p.reason) {
			c.problem(p, "its error is %q, not %q", j.Error, p.reason)
		}
	default:
		c.judgeAttempts(p, j, lines)
		c.judgeDigest(p, j)
	}
}

// judgeAttempts looks at a job that succeeded.
func (c *check) judgeAttempts(p *planned, j *job.Job, lines []entry) {
	done := slices.DeleteFunc(slices.Clone(lines), func(e entry) bool { return e.what != ledgerDone })
	if len(done) == 0 {
		c.problem(p, "succeeded, but no handler came to its end")
		return
	}
	// The kill may fall between a handler's end and its settlement: that one is run again. No other is.
	for _, e := range done[:len(done)-1] {
		if e.pid != c.killed {
			c.problem(p, "attempt %d had succeeded, and was run again", e.attempt)
		}
	}
	var succeeded, failed int
	for _, h := range j.History {
		switch h.Status {
		case job.AttemptSucceeded:
			succeeded++
		case job.AttemptFailed, job.AttemptLost:
			failed++
		}
	}
	if succeeded != 1 {
		c.problem(p, "its history has %d successes", succeeded)
	}
	if failed < p.fails {
		c.problem(p, "its history has %d failures, planned were %d", failed, p.fails)
	}
	if first := lines[0]; first.at.Before(j.DueAt) {
		c.problem(p, "started %s before it was due", j.DueAt.Sub(first.at))
	}
}

func (c *check) judgeDigest(p *planned, j *job.Job) {
	var got demoDigest
	if err := json.Unmarshal(j.Result, &got); err != nil {
		c.problem(p, "its result is no digest: %s", j.Result)
		return
	}
	if got.Gone == "" && got.digest == p.file.want {
		c.right++
		return
	}
	if now, err := c.again(p.file.path); err != nil || now != p.file.want {
		c.changed++
		return
	}
	if got.Gone != "" {
		c.problem(p, "%s: could not be read (%s), and is as it was", p.file.path, got.Gone)
		return
	}
	c.problem(p, "%s: the recorded digest is %s, right is %s", p.file.path, got.SHA256, p.file.want.SHA256)
}
