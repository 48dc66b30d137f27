package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/doctor"
	"github.com/jetcrew/jetcrew/pkg/redact"
)

func (a *app) newDoctor() *cobra.Command {
	var check doctor.Config
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong, and say what to do about it",
		Long: `Looks at the servers and at what jetcrew keeps on them, and prints a line for each
thing that it looked at: ok, warning or error, what it is, and what to do about it. It
changes nothing, also where something is missing.

It looks as far as the rights of its user go, and says of the rest that it was not
checked. What only the servers' monitoring tells (sync_interval, max_file_store, the
disk) it looks at where --monitor names it; the disk only on the server's own machine.

With --role it tries whether this user may do what a role has to; without, it says
which roles the user could have. The roles are ` + strings.Join(doctor.Roles(), ", ") + `.

The exit code is 1 if there is an error; with --strict also if there is a warning.`,
		Example: `  jetcrew doctor
  jetcrew doctor --monitor http://127.0.0.1:8222
  jetcrew doctor --role worker --queue mail
  jetcrew doctor --json | jq -r '.findings[] | select(.level != "ok") | .text'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			check.Namespace, check.Replicas = cfg.Namespace, cfg.Replicas
			if err := check.Validate(); err != nil {
				return usageError{err}
			}
			ctx, stop := a.untilSignal(context.Background())
			defer stop()
			nc, err := a.dial(ctx, cfg)
			if err != nil {
				return err
			}
			defer nc.Close()
			report, err := doctor.Check(ctx, nc, check)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.printJSON(newDoctorOutput(report))
			} else {
				a.showReport(report)
			}
			if err != nil {
				return err
			}
			return verdict(report, strict)
		},
	}
	f := cmd.Flags()
	durationFlag(f, &check.Timeout, "timeout", doctor.DefaultTimeout, "how long each check may take")
	f.StringSliceVar(&check.Monitors, "monitor", nil, "URL of a server's monitoring port; may be given several times")
	f.StringVar(&check.Role, "role", "", "role that this user should have the rights of")
	f.StringVar(&check.Queue, "queue", "", "queue that its rights are tried for (default default)")
	f.StringVar(&check.Space, "space", "", "space that its rights are tried for (default default)")
	f.BoolVar(&strict, "strict", false, "exit with 1 also if there is a warning")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// dial connects the way all commands do, but opens nothing: what is to be looked at may be missing.
func (a *app) dial(ctx context.Context, cfg *config.Config) (*nats.Conn, error) {
	var opts *nats.Options
	_, err := a.connect(ctx, cfg, zerolog.Nop(), func(o *nats.Options) error {
		got := *o
		opts = &got
		return errors.New("only what it would connect with was wanted")
	})
	if opts == nil {
		return nil, err
	}
	// These belong to the client that there is none of.
	opts.DisconnectedErrCB, opts.ReconnectedCB, opts.ClosedCB = nil, nil, nil
	opts.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {}
	nc, err := opts.Connect()
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %s", redact.Text(strings.Join(opts.Servers, ", ")), redact.Text(err.Error()))
	}
	return nc, nil
}

// showReport prints a line for each finding, and what all of them come to.
func (a *app) showReport(r *doctor.Report) {
	for _, f := range r.Findings {
		line := fmt.Sprintf("%-8s %-16s %s", f.Level, f.ID, safe(f.Text))
		if f.Advice != "" {
			line += " → " + safe(f.Advice)
		}
		fmt.Fprintln(a.stdout, line)
	}
	fmt.Fprintf(a.stdout, "\n%s: %d ok, %d warnings, %d errors\n", safe(r.Server), r.Count(doctor.OK), r.Count(doctor.Warning), r.Count(doctor.Error))
}

// doctorOutput is the report as JSON.
type doctorOutput struct {
	Server    string           `json:"server"`
	Namespace string           `json:"namespace"`
	At        time.Time        `json:"at"`
	OK        int              `json:"ok"`
	Warnings  int              `json:"warnings"`
	Errors    int              `json:"errors"`
	Findings  []doctor.Finding `json:"findings"`
}

func newDoctorOutput(r *doctor.Report) doctorOutput {
	return doctorOutput{r.Server, r.Namespace, r.At, r.Count(doctor.OK), r.Count(doctor.Warning), r.Count(doctor.Error), r.Findings}
}

// verdict is the error that the command ends with.
func verdict(r *doctor.Report, strict bool) error {
	errs, warnings := r.Count(doctor.Error), r.Count(doctor.Warning)
	switch {
	case errs > 0:
		return fmt.Errorf("%d of %d findings are errors", errs, len(r.Findings))
	case strict && warnings > 0:
		return fmt.Errorf("%d of %d findings are warnings", warnings, len(r.Findings))
	}
	return nil
}
