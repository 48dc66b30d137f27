package main

import (
	"fmt"
	"io"
	"sync"
)

// checkedWriter remembers the first write that failed, and makes no more: no command has to look at each of its
// writes, and none ends well without its output.
type checkedWriter struct {
	to io.Writer

	mu  sync.Mutex
	err error
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.to.Write(p)
	w.err = err
	return n, err
}

// failure is the first write that failed.
func (w *checkedWriter) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return fmt.Errorf("standard output: %w", w.err)
	}
	return nil
}

// Fd is that of the file beneath, for whoever asks whether it is a terminal; of anything else, none.
func (w *checkedWriter) Fd() uintptr {
	if f, ok := w.to.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}
