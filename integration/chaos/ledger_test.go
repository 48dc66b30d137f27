package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// event is what a worker says about one attempt of a job.
type event string

const (
	eventUp      event = "up"      // the worker takes jobs
	eventStart   event = "start"   // the handler was called
	eventDone    event = "done"    // the handler returned
	eventSettled event = "settled" // Settle answered without an error
	eventLost    event = "lost"    // Settle answered that the job is somebody else's
	eventRefused event = "refused" // Settle answered another error; it is tried again
)

// entry is one line of a ledger.
type entry struct {
	At      time.Duration `json:"at"` // by the clock that all processes share
	Event   event         `json:"event"`
	Worker  string        `json:"worker"`
	PID     int           `json:"pid"`
	Job     string        `json:"job,omitempty"`
	Attempt int           `json:"attempt,omitempty"`
	Status  string        `json:"status,omitempty"` // the outcome, or as what the job was settled
	Error   string        `json:"error,omitempty"`
}

// ledger is a worker's own account of what it does. Each line is one write to a
// file that is open for appending, so it outlives the process from then on.
type ledger struct {
	worker string
	file   *os.File
}

func openLedger(path, worker string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &ledger{worker: worker, file: f}, err
}

func (l *ledger) write(e entry) {
	e.At, e.Worker, e.PID = monotonic(), l.worker, os.Getpid()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("ledger of %s: %v", l.worker, err)) // a gap would make the check worthless
	}
}

// account reads the ledgers of all workers of a test as they grow.
type account struct {
	t testing.TB

	mu      sync.Mutex
	paths   []string
	read    map[string]int
	entries []entry
}

func newAccount(t testing.TB) *account { return &account{t: t, read: make(map[string]int)} }

func (a *account) add(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paths = append(a.paths, path)
}

// all is every line so far, those of one worker in their order.
func (a *account) all() []entry {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.paths {
		data, err := os.ReadFile(p)
		if os.IsNotExist(err) {
			continue // its worker is still starting
		}
		if err != nil {
			a.t.Fatalf("ledger: %v", err)
		}
		for rest := data[a.read[p]:]; ; {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				break // it is being written
			}
			var e entry
			if err := json.Unmarshal(line, &e); err != nil {
				a.t.Fatalf("ledger %s: %q: %v", p, line, err)
			}
			a.entries = append(a.entries, e)
			a.read[p] += len(line) + 1
			rest = after
		}
	}
	return a.entries[:len(a.entries):len(a.entries)]
}

// count is how many lines match.
func (a *account) count(match func(entry) bool) int {
	n := 0
	for _, e := range a.all() {
		if match(e) {
			n++
		}
	}
	return n
}

// running is how many handlers of a worker have started and not returned.
func (a *account) running(worker string) int {
	n := 0
	for _, e := range a.all() {
		switch {
		case e.Worker != worker:
		case e.Event == eventStart:
			n++
		case e.Event == eventDone:
			n--
		}
	}
	return n
}

func is(ev event, worker, job string) func(entry) bool {
	return func(e entry) bool {
		return e.Event == ev && (worker == "" || e.Worker == worker) && (job == "" || e.Job == job)
	}
}
