//go:build linux || darwin

package doctor

import (
	"errors"
	"syscall"
)

// errElsewhere: a store's disk is not this machine's.
var errElsewhere = errors.New("not on this machine")

// freeSpace is what a user's programs may still write to the volume that a directory is on.
func freeSpace(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
