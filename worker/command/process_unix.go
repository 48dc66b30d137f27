//go:build unix && !linux

package command

import "syscall"

const supported = true

const ioctlWaiting = 0x4004667f // FIONREAD, on all of them

// ownGroup puts the program into a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the program and ends what it leaves in its group.
func (p *process) reap() error {
	err := p.cmd.Wait()
	p.endGroup()
	return err
}
