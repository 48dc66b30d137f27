package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/scheduler"
)

// leaderEvery is how often a process that does not lead looks who does.
const leaderEvery = 5 * time.Second

func (a *app) newSchedule() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Manage schedules; without a subcommand, fire them and do the housekeeping",
		Long: `With a subcommand, looks at schedules and changes them: jobs that are put in again and
again, at instants that a cron expression says.

Without one, takes part in the election of one process that does two things for all: it
fires the schedules, and it does the housekeeping, that is, it repairs what crashes and
server faults left behind, such as a job whose worker is gone, or one that is due and was
not woken. Run two or three, on different machines: if the one that leads dies, another
takes over within about ten seconds, and makes the fires that came due in between.

Workers do the same unless they run with --no-lead; with a process or two of this kind
they need not. If nobody takes part, nothing fires: "jetcrew scheduler status" tells.

SIGINT or SIGTERM gives the lead back at once and exits with 0. It exits with 1 when
the connection is closed for good.`,
		Example: `  jetcrew schedule --listen 127.0.0.1:8081
  jetcrew schedule put nightly --type report --cron '30 2 * * *' --timezone Europe/Paris
  jetcrew schedule list --all-spaces
  jetcrew schedule next nightly`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("listen") {
				if err := checkListen(listen); err != nil {
					return err
				}
			}
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			return a.schedule(cfg, listen)
		},
	}
	listenFlag(cmd.Flags(), &listen)
	cmd.AddCommand(a.newScheduleList(), a.newScheduleGet(), a.newSchedulePut(), a.newScheduleNext(), a.newScheduleRun())
	for _, ch := range scheduleChanges {
		cmd.AddCommand(a.newScheduleChange(ch))
	}
	for _, sub := range cmd.Commands() {
		if strings.Contains(sub.Use, " NAME") {
			sub.ValidArgsFunction = a.completeSchedule
		}
	}
	return cmd
}

func (a *app) schedule(cfg *config.Config, listen string) error {
	log := a.logger(cfg)
	ctx, stop := a.untilSignal(context.Background())
	defer stop()
	c, err := a.connect(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, done := whileConnected(ctx, c.Conn())
	defer done()
	id := newProcessID("schedule")
	m := newMetrics(c, "schedule", log)
	h, err := a.newHousekeeping(ctx, c, cfg, id, m, log)
	if err != nil {
		return err
	}
	v, err := openVitals("listen", listen, c, cfg, m, log)
	if err != nil {
		return err
	}
	log.Info().Str("id", id).Msg("taking part in the election")

	ctx, end := context.WithCancel(ctx)
	var beside sync.WaitGroup
	var served error // read after beside is done
	beside.Go(func() {
		defer end() // a process that cannot say how it is had better be started again
		served = v.run(ctx)
	})
	beside.Go(func() { tellLeader(ctx, h.election, id, log) })
	h.run(ctx)
	end()
	beside.Wait()
	if err := lostConnection(ctx); err != nil {
		return err
	}
	return served
}

// newProcessID names this process anew at every start.
func newProcessID(role string) string {
	return fmt.Sprintf("%s-%d-%s", role, os.Getpid(), strings.ToLower(rand.Text()[:8]))
}

// tellLeader logs who leads, whenever that changes. That this process does is logged by the election.
func tellLeader(ctx context.Context, e *scheduler.Election, id string, log zerolog.Logger) {
	term := ""
	for wait(ctx, leaderEvery) == nil {
		within, cancel := context.WithTimeout(ctx, leaderEvery)
		l, err := e.Leader(within)
		cancel()
		switch {
		case errors.Is(err, scheduler.ErrNoLeader):
			if term != "" {
				log.Warn().Msg("nobody leads")
			}
			term = ""
		case err != nil:
			log.Debug().Err(err).Msg("who leads could not be read")
		case l.Term != term:
			term = l.Term
			if l.ID != id {
				log.Info().Str("leader", l.ID).Str("host", l.Host).Int("pid", l.PID).Time("since", l.Since).Msg("another process leads")
			}
		}
	}
}
