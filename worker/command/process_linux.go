package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const supported = true

const ioctlWaiting = unix.TIOCINQ // FIONREAD

const (
	lingerPoll = 20 * time.Millisecond
	gonePoll   = time.Millisecond
	goneTime   = 500 * time.Millisecond // for what was killed to be gone
)

// ownGroup puts the program into a process group of its own, and has the kernel end it with this process.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// reap waits for the program and ends what it leaves in its group. Until the group is ended the program is not
// reaped, so that the group's id cannot come to be somebody else's.
func (p *process) reap() error {
	pid := p.cmd.Process.Pid
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break // any other error: there is nothing to wait for, as Wait will say
		}
	}
	for p.lingers() && othersIn(pid) {
		time.Sleep(lingerPoll)
	}
	p.endGroup()
	err := p.cmd.Wait()
	// What was killed takes a moment to be gone. If this process is what orphans are given to, as in a
	// container, it has to reap them.
	for end := time.Now().Add(goneTime); time.Now().Before(end); time.Sleep(gonePoll) {
		for {
			if n, err := unix.Wait4(-pid, nil, unix.WNOHANG, nil); n <= 0 || err != nil {
				break
			}
		}
		if errors.Is(unix.Kill(-pid, 0), unix.ESRCH) {
			break
		}
	}
	return err
}

// othersIn reports whether anything but its leader is alive in a group.
func othersIn(pgid int) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == pgid {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		// pid (name) state ppid pgrp ...; the name may hold anything.
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(f) > 2 && string(f[0]) != "Z" && string(f[2]) == strconv.Itoa(pgid) {
			return true
		}
	}
	return false
}
