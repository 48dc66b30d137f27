package natstest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// dieWithParent has the kernel kill the process when its parent ends, even one
// that is paused and cannot see that its standard input is closed.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// stopped says which thread of a process still runs; nil if all are stopped.
func stopped(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return err
	}
	if len(threads) == 0 {
		return fmt.Errorf("process %d has no threads", pid)
	}
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// The state follows the name, which is in parentheses and may hold any itself.
		_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if !bytes.HasPrefix(state, []byte("T ")) {
			return fmt.Errorf("%s says %.1s", path, state)
		}
	}
	return nil
}
