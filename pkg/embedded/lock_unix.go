//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// dirLock is held while a server uses a directory. The kernel releases it when
// the process ends, however it ends, so a crash leaves nothing to clean up.
type dirLock struct {
	file *os.File
}

// lockDir takes the directory's lock; ErrInUse if somebody holds it.
func lockDir(dir string) (*dirLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "embedded.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &dirLock{file: f}, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrInUse
	}
	return nil, errors.Join(err, f.Close())
}

// release gives the lock up; a nil lock is none.
func (l *dirLock) release() {
	if l != nil {
		// The file was not written to: closing it can only release the lock.
		_ = l.file.Close()
	}
}
