//go:build !linux && !darwin

package doctor

import "errors"

// errElsewhere: a store's disk is not this machine's.
var errElsewhere = errors.New("not on this machine")

// freeSpace is not known here.
func freeSpace(string) (uint64, error) { return 0, errElsewhere }
