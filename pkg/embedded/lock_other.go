//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package embedded

// dirLock is nothing where the system has no flock: there it is the caller's
// part to give every server a directory of its own.
type dirLock struct{}

func lockDir(string) (*dirLock, error) {
	return &dirLock{}, nil
}

func (l *dirLock) release() {}
