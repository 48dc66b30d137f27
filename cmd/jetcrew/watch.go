package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func (a *app) newJobWatch() *cobra.Command {
	var f filterFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch [ID]",
		Short: "Show what happens to jobs, live",
		Long: `Prints a line for each change of the jobs of the space ` + job.DefaultSpace + `, or of those that --space
names, and for what their handlers say of themselves (progress and log; with --type,
changes only), until Ctrl-C.

With an ID it shows how that job stands, and what happens to it until it has ended.
` + waitHelp + `

Events are hints: what happens while the connection is lost is not shown; after it is back,
and at the end, the job's record is read.`,
		Example: `  jetcrew job watch
  jetcrew job watch welcome-42
  jetcrew job watch --all-spaces --status failed,dead --json | jq -r .error`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := f.filter(cmd)
			if err != nil {
				return err
			}
			req := client.WatchRequest{Filter: filter}
			if len(args) > 0 {
				if req.ID, err = watchedID(cmd, args[0], filter); err != nil {
					return err
				}
			}
			// The log says when the connection is lost, and when it is back.
			return a.withClientLogging(cmd, forever, a.logger, func(ctx context.Context, c *client.Client) error {
				w := &watching{app: a, client: c, req: req, json: asJSON}
				if req.ID != "" {
					return a.unlessStopped(w.job(ctx))
				}
				return a.unlessStopped(c.Watch(ctx, req, w.show))
			})
		},
	}
	f.addLive(cmd, job.FilterStatuses)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, an event a line")
	return cmd
}

// watchedID is the one job that is meant.
func watchedID(cmd *cobra.Command, id string, filter job.Filter) (string, error) {
	for _, name := range []string{"all-spaces", "type", "status"} {
		if cmd.Flags().Changed(name) {
			return "", usagef("--%s is for many jobs: it does not go with an ID", name)
		}
	}
	if len(filter.Spaces) > 1 {
		return "", usagef("--space: a job is in one space")
	}
	return id, job.ValidateName("id", id, job.MaxName)
}

// unlessStopped is unlessInterrupted for whoever's error may be another one's.
func (a *app) unlessStopped(err error) error {
	if errors.Is(err, context.Canceled) {
		return a.unlessInterrupted(err)
	}
	return err
}

// watching prints events.
type watching struct {
	app    *app
	client *client.Client
	req    client.WatchRequest
	json   bool

	shown *job.Job      // the newest state of the one job that was shown
	ended chan struct{} // closed when an event told of its end
}

// endPatience is how long the event of an end is waited for that has left no record.
const endPatience = 2 * time.Second

// job watches one job until it has ended.
func (w *watching) job(ctx context.Context) error {
	key := job.Key{Queue: w.req.Filter.Queue, Space: w.req.Filter.Spaces[0], ID: w.req.ID}
	j, err := w.client.Get(ctx, key) // which also tells its queue
	if err != nil {
		return err
	}
	key, w.req.Filter.Queue, w.ended = j.Key(), j.Queue, make(chan struct{})
	watch, stop := context.WithCancel(ctx)
	defer stop()
	waited := make(chan error, 1)
	var end *job.Job
	go func() { // whatever events are lost, this sees the end
		defer stop()
		var err error
		end, err = w.client.Wait(watch, key)
		if errors.Is(err, job.ErrNotFound) {
			w.awaitEnd(watch)
		}
		waited <- err
	}()
	err = w.client.Watch(watch, w.req, func(e client.Event) error { return w.change(watch, key, e) })
	stop()
	wait := <-waited
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case end != nil:
		if err := w.record(end); err != nil {
			return err
		}
	case err != nil && !errors.Is(err, context.Canceled):
		return err
	case errors.Is(wait, job.ErrNotFound) && w.shown != nil && w.shown.Status.Terminal():
		end = w.shown // it has left no record
	case errors.Is(wait, job.ErrNotFound):
		return goneError{key, wait}
	default:
		return wait
	}
	if end.Status != job.Succeeded {
		return outcomeError{end}
	}
	return nil
}

// awaitEnd waits for the event of an end.
func (w *watching) awaitEnd(ctx context.Context) {
	t := time.NewTimer(endPatience)
	defer t.Stop()
	select {
	case <-w.ended:
	case <-t.C:
	case <-ctx.Done():
	}
}

// over notes that an event told of the end.
func (w *watching) over() {
	select {
	case <-w.ended:
	default:
		close(w.ended)
	}
}

// change shows what happened to the one job, unless it is known, and reads the record where events may be missing.
func (w *watching) change(ctx context.Context, key job.Key, e client.Event) error {
	switch e.Kind {
	case client.EventWatching, client.EventBack, client.EventMissed:
		j, err := w.client.Get(ctx, key)
		if err != nil {
			return nil //nolint:nilerr // the wait for its end tells what is wrong, or reads it later
		}
		return w.record(j)
	case client.EventLost:
		return nil
	case client.EventProgress, client.EventLog:
		return w.show(e)
	}
	j := &job.Job{
		Queue: key.Queue, Space: key.Space, ID: key.ID,
		Status: e.Status, UpdatedAt: e.At, Attempts: e.Attempts, WorkerID: e.WorkerID, Error: e.Error,
		RunAt: e.RunAt, CancelRequested: e.CancelRequested,
	}
	switch {
	case e.Kind == client.EventDeleted:
		w.over()
		return w.show(e)
	case e.At.IsZero(), !w.news(j): // it was put in, which its record knows too; or it is known
		return nil
	}
	w.shown = j
	if j.Status.Terminal() {
		w.over()
	}
	return w.show(e)
}

// record shows a record, unless it is known.
func (w *watching) record(j *job.Job) error {
	if !w.news(j) {
		return nil
	}
	w.shown = j
	kind := client.EventKind(j.Status)
	if j.Status == job.Pending {
		kind = client.EventKind(job.Ready)
		if j.RunAt.After(w.client.Now()) {
			kind = client.EventKind(job.Due)
		}
	}
	e := client.Event{
		Kind: kind, At: j.UpdatedAt, Queue: j.Queue, Space: j.Space, ID: j.ID,
		Status: j.Status, Type: j.Type, Attempts: j.Attempts, WorkerID: j.WorkerID, Error: j.Error, Progress: j.Progress,
		CancelRequested: j.CancelRequested && !j.Status.Terminal(),
	}
	if j.Status == job.Pending {
		e.RunAt = j.RunAt
	}
	return w.show(e)
}

// news reports whether a state is neither older than what was shown, nor the same. An event and the record that it
// tells of may name instants that differ by a little, so these alone make nothing new.
func (w *watching) news(j *job.Job) bool {
	s := w.shown
	switch {
	case s == nil:
		return true
	case j.Status.Terminal() && s.Status.Terminal(): // a job ends once, unless it is requeued in between
		return j.UpdatedAt.After(s.UpdatedAt) && (j.Status != s.Status || j.Attempts != s.Attempts)
	case j.UpdatedAt.Before(s.UpdatedAt):
		return false
	case j.Status != s.Status, j.Attempts != s.Attempts, j.Error != s.Error, j.WorkerID != s.WorkerID:
		return true
	default:
		return j.CancelRequested != s.CancelRequested || j.Status == job.Pending && !j.RunAt.Equal(s.RunAt)
	}
}

// show prints an event.
func (w *watching) show(e client.Event) error {
	if e.At.IsZero() {
		e.At = job.Millis(w.client.Now()) // it has just happened
	}
	switch {
	case e.Kind == client.EventMissed:
		fmt.Fprintln(w.app.stderr, "some events were missed: they came faster than they could be printed")
		return nil
	case !e.Kind.OfJob():
		return nil
	case w.json:
		return w.app.printJSONLine(e)
	case e.Kind == client.EventLog:
		for _, line := range e.Log {
			e.At = line.At
			if err := w.line(e, line.Text); err != nil {
				return err
			}
		}
		return nil
	}
	return w.line(e, details(&e)...)
}

// details are what there is to say of an event beside its kind.
func details(e *client.Event) []string {
	var out []string
	if e.Attempts > 0 && e.Kind != client.EventDeleted {
		out = append(out, fmt.Sprintf("attempt %d", e.Attempts))
	}
	if e.WorkerID != "" {
		out = append(out, "on "+e.WorkerID)
	}
	if e.CancelRequested {
		out = append(out, "cancel requested")
	}
	if e.Kind == client.EventKind(job.Due) && !e.RunAt.IsZero() {
		out = append(out, "runs at "+instant(e.RunAt))
	}
	if m := e.Progress; m != nil {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%.6g %s", m.Done, m.Note)))
	}
	if e.Error != "" {
		out = append(out, e.Error)
	}
	return out
}

// line prints a line of text.
func (w *watching) line(e client.Event, details ...string) error {
	key := e.Key()
	text := strings.TrimRight(shorten(safe(strings.Join(details, "  ")), 400), " ")
	_, err := fmt.Fprintln(w.app.stdout, strings.TrimRight(fmt.Sprintf("%-24s  %s  %-9s  %s", instant(e.At), safe(key.String()), safe(string(e.Kind)), text), " "))
	return err
}
