//go:build unix

package command

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalGroup sends to everything in a group. That nothing is left in it is no error here.
func signalGroup(pgid int, s syscall.Signal) { _ = syscall.Kill(-pgid, s) }

// deathBy names the signal that a program died of, if it did.
func deathBy(state *os.ProcessState) string {
	ws, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() {
		return ""
	}
	if name := unix.SignalName(ws.Signal()); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", ws.Signal())
}

// waiting is how many bytes can be read from a pipe at once.
func waiting(f *os.File) (n int) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) { // fails if the file is closed; then nothing can be read
		n, err = unix.IoctlGetInt(int(fd), ioctlWaiting)
	})
	if err != nil {
		return 0
	}
	return n
}
