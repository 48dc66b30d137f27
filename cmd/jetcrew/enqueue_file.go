package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	maxAtOnce    = 1000 // of an all-or-nothing batch
	fileTimeout  = time.Hour
	maxBadShown  = 20
	singleFlags  = "id input delay due-at max-attempts timeout deadline queue space environment"
	maxLineBytes = 16 << 20
)

// line is one job of a file.
type line struct {
	number int
	spec   job.Spec
}

func (a *app) enqueueFile(cmd *cobra.Command, args []string, f enqueueFlags) error {
	if len(args) > 0 {
		return usagef("give a TYPE or --file, not both")
	}
	if f.wait {
		return usagef("--wait waits for one job: it does not go with --file")
	}
	for name := range strings.FieldsSeq(singleFlags) {
		if cmd.Flags().Changed(name) {
			return usagef("--%s is for one job: with --file, say it in the file", name)
		}
	}
	lines, err := a.readFile(f.file)
	if err != nil {
		return err
	}
	if f.all && len(lines) > maxAtOnce {
		return usagef("--all takes at most %d jobs, the file has %d", maxAtOnce, len(lines))
	}
	if len(lines) == 0 {
		return usagef("--file: no jobs in %s", f.file)
	}
	return a.withFleet(cmd, fileTimeout, func(ctx context.Context, c fleet) error {
		return a.putLines(ctx, c, lines, f)
	})
}

// readFile reads and checks every line, and names each bad one.
func (a *app) readFile(name string) ([]line, error) {
	r := a.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, usageError{fmt.Errorf("--file: %w", err)}
		}
		defer file.Close()
		r = file
	}
	lines, bad, err := parseLines(r)
	if err != nil {
		return nil, usageError{fmt.Errorf("--file %s: %w", name, err)}
	}
	for i, b := range bad {
		if i == maxBadShown {
			fmt.Fprintf(a.stderr, "%s: and %d more\n", safe(name), len(bad)-i)
			break
		}
		fmt.Fprintf(a.stderr, "%s:%s\n", safe(name), safe(b.Error()))
	}
	if len(bad) > 0 {
		return nil, usagef("%d of %d lines in %s are no jobs: nothing was enqueued", len(bad), len(bad)+len(lines), name)
	}
	return lines, nil
}

// parseLines takes one JSON object a line; blank lines count but say nothing.
func parseLines(r io.Reader) (lines []line, bad []error, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxLineBytes)
	for n := 1; s.Scan(); n++ {
		b := bytes.TrimSpace(s.Bytes())
		if len(b) == 0 {
			continue
		}
		spec, err := parseSpec(b)
		if err != nil {
			bad = append(bad, fmt.Errorf("%d: %w", n, err))
			continue
		}
		lines = append(lines, line{n, spec})
	}
	return lines, bad, s.Err()
}

func parseSpec(b []byte) (job.Spec, error) {
	b = bytes.Clone(b) // the spec's input points into it
	var spec job.Spec
	if k := jsontext.Value(b).Kind(); k != '{' {
		return spec, errors.New("must be one JSON object")
	}
	if err := job.Decode(b, &spec); err != nil {
		return spec, err
	}
	var members map[string]jsontext.Value
	if err := job.Decode(b, &members); err != nil {
		return spec, err
	}
	for name := range members {
		if !slices.Contains(specMembers, name) {
			return spec, &job.FieldError{Field: name, Reason: "is not known"}
		}
	}
	return spec, spec.Normalize()
}

// specMembers are the names that a job in a file may have.
var specMembers = func() []string {
	var names []string
	t := reflect.TypeFor[job.Spec]()
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" {
			names = append(names, name)
		}
	}
	return names
}()

// putLines enqueues, and reports each job that could not be.
func (a *app) putLines(ctx context.Context, c fleet, lines []line, f enqueueFlags) error {
	bar := a.newProgress(len(lines), "enqueue")
	defer bar.stop()
	from := a.trace()
	created, existed, failed := 0, 0, 0
	for batch := range slices.Chunk(lines, maxAtOnce) {
		specs := make([]job.Spec, len(batch))
		for i, l := range batch {
			specs[i] = l.spec
			specs[i].Trace = from
		}
		put := c.EnqueueMany
		if f.all {
			put = c.EnqueueAll
		}
		out, err := put(ctx, specs)
		if err != nil && (f.all || len(out) != len(batch)) {
			return fmt.Errorf("enqueue %s: %w", f.file, err)
		}
		for i, e := range out {
			switch {
			case e.Err != nil:
				failed++
				bar.printf("%s:%d: %s\n", safe(f.file), batch[i].number, oneLine(e.Err))
			case e.Created:
				created++
			default:
				existed++
			}
			if f.json {
				if e.Key == (job.Key{}) {
					e.Key = specs[i].Key()
				}
				if err := a.printEnqueued(e, true); err != nil {
					return err
				}
			}
		}
		bar.set(created + existed + failed)
	}
	bar.stop()
	if !f.json {
		fmt.Fprintf(a.stdout, "created %d, existed %d, failed %d\n", created, existed, failed)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d jobs were not enqueued: run it again with ids in the file, and what exists is left as it is", failed, len(lines))
	}
	return nil
}
