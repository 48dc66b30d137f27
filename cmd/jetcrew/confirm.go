package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// asks reports whether somebody is there to be asked.
func (a *app) asks() bool { return isTerminal(a.stdin) && isTerminal(a.stderr) }

// errNotConfirmed: somebody was asked, and did not say yes.
var errNotConfirmed = errors.New("nothing was changed")

// confirm asks, and answers true for a yes; the error is why not.
func (a *app) confirm(ctx context.Context, question string) (bool, error) {
	fmt.Fprintf(a.stderr, "%s? [y/N] ", question)
	type read struct {
		line string
		err  error
	}
	answer := make(chan read, 1)
	go func() { // a terminal's read cannot be cut short: this ends with the process, which nothing else keeps
		line, err := bufio.NewReader(a.stdin).ReadString('\n')
		answer <- read{line, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return false, ctx.Err()
	case r := <-answer:
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			return false, fmt.Errorf("ask: %w", r.err)
		}
		switch strings.ToLower(strings.TrimSpace(r.line)) {
		case "y", "yes":
			return true, nil
		}
		return false, errNotConfirmed
	}
}
