package natstest

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// What the kernel is given for a test carries the id of the process that asked for it: parallel runs do not collide,
// and what a run that was killed has left is known from it.

var (
	made   atomic.Int64 // of all kinds, to tell them apart
	ofPID  = regexp.MustCompile(`^jct([0-9]+)x[0-9]+`)
	tidied sync.Once
)

// kernelName is a new name, short enough for a network interface.
func kernelName() string {
	tidied.Do(tidy)
	return fmt.Sprintf("jct%dx%d", syscall.Getpid(), made.Add(1))
}

// orphaned reports whether a name is that of a process which is no more.
func orphaned(name string) bool {
	m := ofPID.FindStringSubmatch(name)
	if m == nil {
		return false
	}
	pid, err := strconv.Atoi(m[1])
	return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// tidy removes what killed runs have left. That it fails is no matter: names and addresses differ anyhow.
func tidy() {
	tidyNetworks()
	tidyMounts()
}

// command runs a program of the system's, and answers what it said.
func command(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// must has a program run, and ends the test if it fails.
func must(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := command(name, args...)
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	return out
}
