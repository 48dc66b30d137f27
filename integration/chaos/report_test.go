package chaos

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
)

// verdict is what the checker found of one fault.
type verdict struct {
	fault    string
	acked    int           // jobs that producers were told are there
	lost     int           // of these, gone
	doubled  int           // ended twice
	reran    int           // started again after their end, later than the fault excuses
	recovery time.Duration // the longest from a fault until work went on
	said     []string
	figures  string
	excuse   string // see rules
	excused  []string
	gone     map[string]bool // the jobs that are lost
}

func (v *verdict) other(format string, args ...any) {
	v.said = append(v.said, fmt.Sprintf(format, args...))
}

// lose counts a job once, however often it is missed.
func (v *verdict) lose(id, format string, args ...any) {
	if v.gone == nil {
		v.gone = make(map[string]bool)
	}
	v.gone[id] = true
	v.lost = len(v.gone)
	v.grave(format, args...)
}

func (v *verdict) double(format string, args ...any) { v.doubled++; v.grave(format, args...) }
func (v *verdict) rerun(format string, args ...any)  { v.reran++; v.grave(format, args...) }

// grave is what only an excuse makes bearable.
func (v *verdict) grave(format string, args ...any) {
	if v.excuse != "" {
		v.excused = append(v.excused, fmt.Sprintf(format, args...))
		return
	}
	v.other(format, args...)
}

// full says whether every fault is wanted, with a line for each, and not only those that are quick.
var full = os.Getenv("JETCREW_CHAOS") != ""

var reporting sync.Mutex

// print writes the verdict's line, for whoever asked for the full suite.
func (v *verdict) print() {
	if !full {
		return
	}
	reporting.Lock()
	defer reporting.Unlock()
	excuse := ""
	if v.excuse != "" {
		excuse = "  excused: " + v.excuse
	}
	fmt.Printf("fault: %-62s acknowledged %6d  lost %d  doubled %d  re-run %d  recovered in %7.2f s%s\n",
		words(v.fault), v.acked, v.lost, v.doubled, v.reran, v.recovery.Seconds(), excuse)
}

// words is the name of a test as it would be said.
func words(name string) string {
	var b strings.Builder
	for i, r := range strings.TrimPrefix(name, "Test") {
		switch {
		case r == '_' || r == '/':
			b.WriteByte(' ')
			continue
		case unicode.IsUpper(r) && i > 0:
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// faulted notes that the test does what it does now.
func (c *crew) faulted() { c.faults = append(c.faults, monotonic()) }

// recovery is the longest that it took from a fault until a job was settled again, and until what a worker had begun
// and never came back to was begun again.
func (c *crew) recovery() time.Duration {
	entries := c.account.all()
	var longest time.Duration
	for _, at := range c.faults {
		longest = max(longest, settledAfter(entries, at), resumedAfter(entries, at))
	}
	return longest
}

// settledAfter is how long after an instant the next job was settled.
func settledAfter(entries []entry, at time.Duration) time.Duration {
	first := time.Duration(-1)
	for _, e := range entries {
		if e.Event == eventSettled && e.At > at && (first < 0 || e.At < first) {
			first = e.At
		}
	}
	return max(0, first-at)
}

// resumedAfter is how long after an instant the last of the jobs was begun again whose worker never said more of it.
func resumedAfter(entries []entry, at time.Duration) time.Duration {
	type run struct{ worker, job string }
	begun := make(map[run]time.Duration)
	for _, e := range entries {
		switch r := (run{e.Worker, e.Job}); {
		case e.Job == "":
		case e.Event == eventStart && e.At <= at:
			begun[r] = e.At
		default:
			delete(begun, r)
		}
	}
	next := make(map[string]time.Duration)
	for r := range begun {
		for _, e := range entries {
			if e.Event == eventStart && e.Job == r.job && e.At > at && (next[r.job] == 0 || e.At < next[r.job]) {
				next[r.job] = e.At
			}
		}
	}
	var longest time.Duration
	for _, n := range next {
		longest = max(longest, n-at)
	}
	return longest
}

// heavy skips what belongs to the full suite alone.
func heavy(t testing.TB) {
	t.Helper()
	if !full {
		t.Skip("part of the full suite: make chaos")
	}
}
