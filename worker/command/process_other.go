//go:build !unix

package command

import (
	"os"
	"syscall"
)

// Without process groups it cannot be promised that no program outlives its job: New refuses.
const supported = false

func ownGroup() *syscall.SysProcAttr { return nil }

func (p *process) reap() error { return p.cmd.Wait() }

func signalGroup(int, syscall.Signal) {}

func deathBy(*os.ProcessState) string { return "" }

func waiting(*os.File) int { return 0 }
