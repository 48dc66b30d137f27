//go:build !linux

package natstest

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
)

// dieWithParent is left to the closing of standard input here.
func dieWithParent(*exec.Cmd) {}

// stopped asks ps, since there is no /proc to be read everywhere: it knows the
// process as a whole, whose threads stop together within moments.
func stopped(pid int) error {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return fmt.Errorf("ps: %w", err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(state), []byte("T")) {
		return fmt.Errorf("its state is %s", bytes.TrimSpace(state))
	}
	return nil
}
