package natstest

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the process when its parent ends, even one
// that is paused and cannot see that its standard input is closed.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
