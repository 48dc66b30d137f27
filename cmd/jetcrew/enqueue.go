package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// maxInput bounds what is read from a file or a pipe; the server's own limit is far below it.
const maxInput = 64 << 20

type enqueueFlags struct {
	spec                   job.Spec
	input, dueAt, deadline string
	file                   string
	all, json, wait        bool
	waitTimeout            time.Duration
}

func (a *app) newEnqueue() *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use:   "enqueue TYPE | enqueue --file jobs.jsonl",
		Short: "Put a job in, or many from a file",
		Long: `Puts a job in and prints its queue/space/id, and whether it was created or exists
already. Naming the job with --id makes the command safe to repeat: a job that
exists is left as it is.

With --wait it waits for the job's end and prints the result instead: text as it is,
anything else as JSON.
` + waitHelp + `

With --file, each line is one job as a JSON object: type, and if wanted id, space,
queue, input, delay, dueAt, maxAttempts, timeout, deadline, environment, trigger,
retry {base, max}. All lines are checked before the first job is put in.`,
		Example: `  jetcrew enqueue echo --input '{"hello":"world"}'
  jetcrew enqueue email --id welcome-42 --queue mail --input @welcome.json
  date | jq -R '{at:.}' | jetcrew enqueue echo --input - --delay 10m
  jetcrew enqueue echo --input '{"n":1}' --wait
  jetcrew enqueue --file jobs.jsonl --all`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("file") {
				return a.enqueueFile(cmd, args, f)
			}
			if len(args) != 1 {
				return usagef("enqueue needs the job's TYPE, or --file")
			}
			if f.all {
				return usagef("--all goes with --file")
			}
			if f.waitTimeout < 0 || f.waitTimeout > 0 && !f.wait {
				return usagef("--wait-timeout goes with --wait, and must not be negative")
			}
			f.spec.Type = args[0]
			return a.enqueueOne(cmd, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.input, "input", "", "input: a JSON object, @file, or - for stdin")
	fl.StringVar(&f.spec.ID, "id", "", "id of the job (default a new one)")
	fl.StringVar(&f.spec.Queue, "queue", job.DefaultQueue, "queue to put it on")
	fl.StringVar(&f.spec.Space, "space", job.DefaultSpace, "space (tenant) it belongs to")
	fl.StringVar(&f.spec.Environment, "environment", job.DefaultEnvironment, "environment it belongs to")
	durationFlag(fl, &f.spec.Delay, "delay", 0, "how long it waits first")
	fl.StringVar(&f.dueAt, "due-at", "", "instant it waits for, such as 2030-01-31T09:00:00Z")
	fl.IntVar(&f.spec.MaxAttempts, "max-attempts", job.DefaultMaxAttempts, "how often it is tried")
	durationFlag(fl, &f.spec.Timeout, "timeout", 0, "how long one attempt may take (0: no limit)")
	fl.StringVar(&f.deadline, "deadline", "", "instant past which it is not tried any more")
	fl.StringVar(&f.file, "file", "", "file with one job a line (- for stdin)")
	fl.BoolVar(&f.all, "all", false, "with --file: put in all jobs or none, at most 1,000")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.BoolVar(&f.wait, "wait", false, "wait for the job's end, print its result, and exit as it ended")
	durationFlag(fl, &f.waitTimeout, "wait-timeout", 0, "with --wait: how long (0: as long as it takes)")
	return cmd
}

func (a *app) enqueueOne(cmd *cobra.Command, f enqueueFlags) error {
	spec := f.spec
	if cmd.Flags().Changed("id") && spec.ID == "" {
		return usagef("--id: must not be empty")
	}
	if cmd.Flags().Changed("max-attempts") && spec.MaxAttempts == 0 {
		return usagef("--max-attempts: must be 1 to %d, not 0", job.MaxMaxAttempts)
	}
	for _, i := range []struct {
		flag, value string
		to          *time.Time
	}{{"--due-at", f.dueAt, &spec.DueAt}, {"--deadline", f.deadline, &spec.Deadline}} {
		if i.value == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339, i.value)
		if err != nil {
			return usagef("%s: %q is no instant such as 2030-01-31T09:00:00Z", i.flag, i.value)
		}
		*i.to = t
	}
	input, err := a.readInput(f.input)
	if err != nil {
		return usageError{fmt.Errorf("--input: %w", err)}
	}
	spec.Input, spec.Trace = input, a.trace()
	if err := spec.Normalize(); err != nil {
		return usageError{err}
	}
	limit := requestTimeout
	if f.wait {
		limit = forever
	}
	return a.withFleet(cmd, limit, func(ctx context.Context, c fleet) error {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		e, err := c.EnqueueSpec(asking, spec)
		if err != nil {
			return err
		}
		if f.wait && !cmd.Flags().Changed("id") { // for whoever gives up waiting
			fmt.Fprintf(a.stderr, "waiting for %s\n", safe(e.Key.String()))
		}
		if f.wait {
			ctx, cancel := context.WithTimeout(ctx, waitLimit(f.waitTimeout))
			defer cancel()
			return a.waitFor(ctx, c, e.Key, true, f.json)
		}
		return a.printEnqueued(e, f.json)
	})
}

// readInput reads JSON from the argument itself, from @file, or from stdin.
func (a *app) readInput(arg string) ([]byte, error) {
	switch {
	case arg == "":
		return nil, nil
	case arg == "-":
		return readLimited(a.stdin)
	case strings.HasPrefix(arg, "@"):
		file, err := os.Open(arg[1:])
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return readLimited(file)
	default:
		return []byte(arg), nil
	}
}

func readLimited(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err == nil && len(b) > maxInput {
		err = fmt.Errorf("is over %d bytes", maxInput)
	}
	return b, err
}

// printEnqueued says what became of one job.
func (a *app) printEnqueued(e job.Enqueued, asJSON bool) error {
	if asJSON {
		out := struct {
			Queue   string `json:"queue"`
			Space   string `json:"space"`
			ID      string `json:"id"`
			Created bool   `json:"created"`
			Error   string `json:"error,omitempty"`
		}{e.Key.Queue, e.Key.Space, e.Key.ID, e.Created, ""}
		if e.Err != nil {
			out.Error = e.Err.Error()
		}
		return json.NewEncoder(a.stdout).Encode(out)
	}
	word := "exists"
	if e.Created {
		word = "created"
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s\n", safe(e.Key.String()), word)
	return err
}
