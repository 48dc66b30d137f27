package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// demoDir begins the name of the directory that holds all that a demo writes.
const demoDir = "jetcrew-demo-"

// maxProblems is how many a person is shown.
const maxProblems = 20

// demoFlags are what the demo can be asked for.
type demoFlags struct {
	maxFiles int
	timeout  time.Duration
	json     bool
}

func (a *app) newDemo() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Run jobs on your own files, kill the worker in the middle, and check everything",
		Long: `Starts a NATS server in this process and a worker as a child process, and enqueues
one job for each regular file under DIR (default: the current directory) whose
handler computes the file's SHA-256. A few jobs fail first and are retried, one is
delayed, one gives up, and one message is no job at all. When two fifths of the jobs
have ended, the worker is killed with SIGKILL and another one is started.

It exits with 0 only if every recorded digest equals one computed independently,
nothing was lost, no job was settled twice, no success was run again, and every job
ended as planned. A file that is changed or deleted meanwhile is left out of this, and
counted. Handlers pause for some milliseconds, so that the kill lands in the middle.

Nothing is written to DIR. All that the demo writes is in one directory in the
system's for temporary files, whose name begins with ` + demoDir + `. It is removed at the
end, also after Ctrl-C; if the demo itself is killed, its worker removes it, unless it
had none at that instant.`,
		Example: `  jetcrew demo
  jetcrew demo ~/src --max-files 500 --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("api") {
				return usagef("%q does not work over HTTP: it starts a server of its own", cmd.CommandPath())
			}
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if f.maxFiles < 1 || f.maxFiles > 100_000 {
				return usagef("--max-files: must be 1 to 100000, not %d", f.maxFiles)
			}
			if f.timeout < time.Second {
				return usagef("--timeout: must be at least 1s, not %s", f.timeout)
			}
			return a.demo(dir, f)
		},
	}
	cmd.Flags().IntVar(&f.maxFiles, "max-files", 2000, "most files to take")
	durationFlag(cmd.Flags(), &f.timeout, "timeout", 2*time.Minute, "how long all of it may take")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the summary as JSON")
	return cmd
}

func (a *app) demo(dir string, f demoFlags) error {
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	ctx, stop := a.untilSignal(ctx)
	defer stop()

	files, err := findFiles(ctx, dir, f.maxFiles)
	switch {
	case ctx.Err() != nil:
		return tooLong(ctx.Err(), f.timeout)
	case err != nil:
		return usageError{err}
	}
	a.sayFiles(dir, files)
	if len(files.list) == 0 {
		return usagef("no regular file that can be read under %s", dir)
	}
	temp, err := os.MkdirTemp("", demoDir)
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer os.RemoveAll(temp)
	srv, err := embedded.Start(embedded.Config{Dir: filepath.Join(temp, "nats")})
	if err != nil {
		return err
	}
	defer srv.Shutdown()
	c, err := client.Connect(ctx, client.Config{URLs: []string{srv.URL()}, Name: "jetcrew-demo", Streams: streams.Config{Lease: demoLease}})
	if err != nil {
		return err
	}
	defer c.Close()
	root, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("directory %s: %w", dir, err)
	}
	d := &demo{
		app: a, client: c, plan: newPlan(files.list),
		setup: workerSetup{
			URL: srv.URL(), Root: root, Temp: temp, Ledger: filepath.Join(temp, "ledger"), Log: filepath.Join(temp, "worker.log"),
			Pause: pauseFor(len(files.list)), Version: programVersion(),
		},
	}
	summary, err := d.run(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err() // by a signal: whatever else went wrong did so because of it
	}
	if err != nil {
		d.showWorkerLog()
		return tooLong(err, f.timeout)
	}
	summary.Files = files
	if err := a.showSummary(summary, f.json); err != nil {
		return err
	}
	if n := len(summary.Problems); n > 0 {
		d.showWorkerLog()
		return fmt.Errorf("%d checks failed, the first: %s", n, summary.Problems[0])
	}
	return nil
}

func tooLong(err error, limit time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("not done after %s: %w", limit, err)
	}
	return err
}

func (a *app) sayFiles(dir string, f demoFiles) {
	fmt.Fprintf(a.stderr, "%d files under %s", len(f.list), safe(dir))
	if f.Over > 0 {
		fmt.Fprintf(a.stderr, " (and %d more, left out: see --max-files)", f.Over)
	}
	if f.Unreadable > 0 {
		fmt.Fprintf(a.stderr, ", %d skipped that cannot be read", f.Unreadable)
	}
	fmt.Fprintln(a.stderr)
}

// showWorkerLog shows the end of what the workers logged, for whoever looks into a failure.
func (d *demo) showWorkerLog() {
	b, err := os.ReadFile(d.setup.Log)
	if err != nil || len(b) == 0 {
		return
	}
	const tail = 4000
	if len(b) > tail {
		b = b[len(b)-tail:]
	}
	fmt.Fprintf(d.app.stderr, "the workers' log ends so:\n%s\n", b)
}

// demoSummary is what the demo found.
type demoSummary struct {
	Files     demoFiles          `json:"files"`
	Jobs      int                `json:"jobs"`
	Attempts  int                `json:"attempts"`
	Lost      int                `json:"attemptsLostToTheKill"`
	Retried   int                `json:"attemptsFailedAndRetried"`
	Statuses  map[job.Status]int `json:"statuses"`
	Elapsed   time.Duration      `json:"-"`
	Seconds   float64            `json:"seconds"`
	PerSecond float64            `json:"jobsPerSecond"`
	KilledAt  int                `json:"jobsEndedAtTheKill"`
	Probes    int                `json:"pickupProbes"`
	PickupP50 time.Duration      `json:"-"`
	PickupP99 time.Duration      `json:"-"`
	P50       float64            `json:"pickupP50Ms"`
	P99       float64            `json:"pickupP99Ms"`
	Changed   int                `json:"filesChangedMeanwhile"`
	Digests   int                `json:"digestsRight"`
	Problems  []string           `json:"problems"`
}

func (a *app) showSummary(s *demoSummary, asJSON bool) error {
	s.Seconds = s.Elapsed.Seconds()
	s.P50, s.P99 = millis(s.PickupP50), millis(s.PickupP99)
	if s.Elapsed > 0 {
		s.PerSecond = float64(s.Jobs) / s.Elapsed.Seconds()
	}
	if asJSON {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	t := a.table()
	t.AppendRows([]table.Row{
		{"jobs", s.Jobs},
		{"digests right", fmt.Sprintf("%d of %d files", s.Digests, len(s.Files.list)-s.Changed)},
	})
	if s.Changed > 0 {
		t.AppendRow(table.Row{"not checked", fmt.Sprintf("%d files changed or gone meanwhile", s.Changed)})
	}
	t.AppendRow(table.Row{"attempts", fmt.Sprintf("%d (%d failed and retried, %d lost to the kill)", s.Attempts, s.Retried, s.Lost)})
	for _, st := range []job.Status{job.Succeeded, job.Failed, job.Dead, job.Cancelled, job.Pending, job.Running} {
		if n := s.Statuses[st]; n > 0 {
			t.AppendRow(table.Row{st, n})
		}
	}
	t.AppendRows([]table.Row{
		{"worker killed", fmt.Sprintf("SIGKILL when %d jobs had ended", s.KilledAt)},
		{"took", fmt.Sprintf("%.1fs, the kill and its lease included", s.Seconds)},
		{"jobs/s", fmt.Sprintf("%.0f (handlers pause, so this is no benchmark)", s.PerSecond)},
		{"pickup p50", fmt.Sprintf("%.2f ms", s.P50)},
		{"pickup p99", fmt.Sprintf("%.2f ms (%d jobs, one at a time: from the enqueue to the handler)", s.P99, s.Probes)},
	})
	t.Render()
	for i, p := range s.Problems {
		if i == maxProblems {
			fmt.Fprintf(a.stdout, "and %d more\n", len(s.Problems)-i)
			break
		}
		fmt.Fprintf(a.stdout, "PROBLEM: %s\n", safe(p))
	}
	if len(s.Problems) == 0 {
		_, err := io.WriteString(a.stdout, "\nNothing was lost, nothing was done twice, every job ended as planned.\n")
		return err
	}
	return nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
