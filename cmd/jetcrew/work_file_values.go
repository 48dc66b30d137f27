package main

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/worker/command"
)

// execEntry is a program and its arguments: a list, or text that is split as a shell would.
type execEntry []string

// UnmarshalYAML reads either form.
func (e *execEntry) UnmarshalYAML(n ast.Node) error {
	if list, ok := n.(*ast.SequenceNode); ok {
		for _, v := range list.Values {
			text, ok := scalar(v)
			if !ok {
				return mistake(v, "exec: an argument is text")
			}
			*e = append(*e, text)
		}
		if len(*e) == 0 {
			return mistake(n, "exec: no program is named")
		}
		return nil
	}
	text, ok := scalar(n)
	if !ok {
		return mistake(n, "exec is a list of a program and its arguments, or text")
	}
	args, err := command.Split(text)
	if err != nil {
		return mistake(n, "exec: %s", err)
	}
	*e = args
	return nil
}

// fileText is text, also if it looks like a number: it is taken as it is written.
type fileText string

// UnmarshalYAML reads any single value.
func (f *fileText) UnmarshalYAML(n ast.Node) error {
	text, ok := scalar(n)
	if !ok {
		return mistake(n, "text is expected")
	}
	*f = fileText(text)
	return nil
}

// scalar is a single value as it is written, without quotes.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// fileLength is a length of time, such as 30s.
type fileLength time.Duration

// UnmarshalYAML reads text as Go writes durations.
func (f *fileLength) UnmarshalYAML(n ast.Node) error {
	text, _ := scalar(n)
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return mistake(n, "a length of time such as 30s or 2m is expected")
	}
	*f = fileLength(d)
	return nil
}

// fileSize is a number of bytes, such as 256KiB.
type fileSize int

// UnmarshalYAML reads a number with or without a unit.
func (f *fileSize) UnmarshalYAML(n ast.Node) error {
	text, _ := scalar(n)
	unit := 1
	for _, u := range []struct {
		name string
		size int
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"kB", 1000}, {"MB", 1000_000}, {"B", 1}} {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = number, u.size
			break
		}
	}
	v, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || v < 1 || v > math.MaxInt32/unit {
		return mistake(n, "a number of bytes such as 256KiB is expected")
	}
	*f = fileSize(v * unit)
	return nil
}

// queueSlots is how many jobs of a queue run at a time.
type queueSlots int

// UnmarshalYAML reads a number within its limits.
func (q *queueSlots) UnmarshalYAML(n ast.Node) error {
	text, _ := scalar(n)
	v, err := strconv.Atoi(text)
	if err != nil || v < 0 || v > config.MaxConcurrency {
		return mistake(n, "how many jobs of a queue run at a time: a number from 0 to %d is expected", config.MaxConcurrency)
	}
	*q = queueSlots(v)
	return nil
}
