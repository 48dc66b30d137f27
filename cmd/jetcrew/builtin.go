package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

// builtinTypes are the example job types of this program.
var builtinTypes = []string{"echo", "sleep", "fail", "sha256"}

const builtinHelp = `Example types:
  echo    answers its input
  sleep   {"for":"2s"} waits
  fail    {"message":"no luck","times":2} fails its first attempts, or all of them
          without "times"; {"giveUp":true} ends dead at once
  sha256  {"path":"README.md"} answers the digest of a file in the working directory`

// builtins are the example handlers. sha256 reads files under root and nowhere else.
type builtins struct{ root *os.Root }

func openBuiltins(dir string) (*builtins, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &builtins{root}, nil
}

func (b *builtins) close() error { return b.root.Close() }

// register adds the handlers named by types to w.
func (b *builtins) register(w *worker.Worker, types []string) {
	for _, t := range types {
		switch t {
		case "echo":
			worker.Handle(w, t, echo)
		case "sleep":
			worker.Handle(w, t, sleep)
		case "fail":
			worker.Handle(w, t, fail)
		case "sha256":
			worker.Handle(w, t, b.sha256)
		}
	}
}

// checkBuiltins refuses names that are no example types, and drops repetitions.
func checkBuiltins(names []string) ([]string, error) {
	var out []string
	for _, n := range names {
		n = strings.TrimSpace(n)
		if !slices.Contains(builtinTypes, n) {
			return nil, usagef("--builtin: %q is none of %s", n, strings.Join(builtinTypes, ", "))
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

func echo(_ context.Context, _ *job.Job, in jsontext.Value) (any, error) { return in, nil }

type sleepInput struct {
	For time.Duration `json:"for"`
}

func sleep(ctx context.Context, _ *job.Job, in sleepInput) (any, error) {
	start := time.Now()
	for left := in.For; left > 0; left = in.For - time.Since(start) {
		if err := wait(ctx, min(left, time.Second)); err != nil {
			return nil, err
		}
		job.Progress(ctx, time.Since(start).Seconds(), "seconds slept")
	}
	return map[string]string{"slept": time.Since(start).Round(time.Millisecond).String()}, nil
}

type failInput struct {
	Message string `json:"message"`
	Times   int    `json:"times"`
	GiveUp  bool   `json:"giveUp"`
}

func fail(_ context.Context, j *job.Job, in failInput) (any, error) {
	if in.Message == "" {
		in.Message = "failed as asked"
	}
	err := errors.New(in.Message)
	switch {
	case in.GiveUp:
		return nil, job.GiveUp(err)
	case in.Times > 0 && j.Attempts > in.Times:
		return map[string]int{"attempts": j.Attempts}, nil
	default:
		return nil, err
	}
}

type sha256Input struct {
	Path string `json:"path"`
}

// digest is the result of a sha256 job.
type digest struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

func (b *builtins) sha256(ctx context.Context, _ *job.Job, in sha256Input) (any, error) {
	if in.Path == "" {
		return nil, job.GiveUp(errors.New("the input needs a path"))
	}
	return digestFile(ctx, b.root, in.Path)
}

// digestFile reads one regular file under root. A path that leads elsewhere is refused.
func digestFile(ctx context.Context, root *os.Root, path string) (digest, error) {
	info, err := root.Stat(filepath.FromSlash(path))
	if err != nil {
		return digest{}, err
	}
	if !info.Mode().IsRegular() { // a pipe or a device would never end
		return digest{}, job.GiveUp(fmt.Errorf("%s is no regular file", path))
	}
	f, err := root.Open(filepath.FromSlash(path))
	if err != nil {
		return digest{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, contextReader{ctx, f})
	if err != nil {
		return digest{}, fmt.Errorf("read %s: %w", path, err)
	}
	return digest{hex.EncodeToString(h.Sum(nil)), n}, nil
}

// contextReader stops reading when the context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// wait sleeps for d, or until the context ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
