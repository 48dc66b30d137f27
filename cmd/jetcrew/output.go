package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
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

// printJSON prints v as the documents are written, indented.
func (a *app) printJSON(v any) error {
	b, err := job.Encode(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	text := jsontext.Value(b)
	if err := text.Indent(); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", text)
	return err
}

// printJSONLine prints v on one line.
func (a *app) printJSONLine(v any) error {
	b, err := job.Encode(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", b)
	return err
}
