//go:build failpoints && unix

package failpoint

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Enabled says whether this program listens.
const Enabled = true

// ErrInjected is the error of the action "error".
var ErrInjected = errors.New("injected at a failpoint")

var places = []string{
	AfterEnqueue, AfterClaim, AfterClaimWrite, MidHandler, BeforeSettle, AfterSettle, BeforeAck, AfterAck, AfterFire, AfterSweepList, AfterTerm,
}

type action struct {
	what  string
	delay time.Duration
	nth   int  // at which passage; 0 is each
	again bool // at each nth, not only the first
}

// hits says whether the action is for a passage, counted from 1.
func (a action) hits(passage int) bool {
	switch {
	case a.nth == 0:
		return true
	case a.again:
		return passage%a.nth == 0
	}
	return passage == a.nth
}

type plan struct {
	mu      sync.Mutex
	actions map[string]action
	passed  map[string]int
}

var (
	current = sync.OnceValue(func() *plan {
		p, err := parse(os.Getenv("JETCREW_FAILPOINTS"))
		if err != nil {
			panic(err) // a test that mistypes a failpoint must not pass
		}
		return p
	})
	broken = sync.OnceValue(func() []string { return strings.Split(os.Getenv("JETCREW_BROKEN"), ",") })
)

func parse(text string) (*plan, error) {
	p := &plan{actions: make(map[string]action), passed: make(map[string]int)}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		name, rest, _ := strings.Cut(part, "=")
		var a action
		var err error
		if at := strings.IndexAny(rest, "#%"); at >= 0 {
			nth := rest[at+1:]
			if a.nth, err = strconv.Atoi(nth); err != nil || a.nth < 1 {
				return nil, fmt.Errorf("failpoint %q: %q is no passage: want 1 or more", part, nth)
			}
			a.again = rest[at] == '%'
			rest = rest[:at]
		}
		a.what = rest
		if d, ok := strings.CutPrefix(rest, "delay:"); ok {
			a.what = "delay"
			if a.delay, err = time.ParseDuration(d); err != nil {
				return nil, fmt.Errorf("failpoint %q: %w", part, err)
			}
		}
		if !slices.Contains([]string{"kill", "stop", "error", "delay"}, a.what) || !slices.Contains(places, name) {
			return nil, fmt.Errorf("failpoint %q: no such place or action", part)
		}
		p.actions[name] = a
	}
	return p, nil
}

// At is where something may happen. Its error, if any, is to be treated as that of what went before.
func At(name string) error { return current().at(name) }

func (p *plan) at(name string) error {
	p.mu.Lock()
	p.passed[name]++
	a, ok := p.actions[name]
	hit := ok && a.hits(p.passed[name])
	p.mu.Unlock()
	if !hit {
		return nil
	}
	fmt.Fprintf(os.Stdout, "failpoint %s: %s\n", name, a.what)
	switch a.what {
	case "kill", "stop":
		sig := syscall.SIGKILL
		if a.what == "stop" {
			sig = syscall.SIGSTOP
		}
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			panic(err)
		}
		time.Sleep(100 * time.Millisecond) // the signal may reach another thread first
	case "delay":
		time.Sleep(a.delay)
	case "error":
		return fmt.Errorf("%s: %w", name, ErrInjected)
	}
	return nil
}

// Broken says whether a rule is to be broken.
func Broken(rule string) bool { return slices.Contains(broken(), rule) }
