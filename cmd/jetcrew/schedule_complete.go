package main

import (
	"context"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/apiclient"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// completeSchedule has a shell offer the names of schedules, as completeQueue does those of queues.
func (a *app) completeSchedule(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 && !strings.HasSuffix(cmd.Use, "...") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, err := a.scheduleNames(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, name := range names {
		if strings.HasPrefix(name, typed) && safe(name) == name && !slices.Contains(args, name) {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// scheduleNames asks for the names of a space's schedules.
func (a *app) scheduleNames(cmd *cobra.Command) (names []string, err error) {
	space := job.DefaultSpace
	if f := cmd.Flags().Lookup("space"); f != nil && f.Value.String() != "" {
		space = f.Value.String()
	}
	list := func(l scheduler.Listing, err error) error {
		for i := range l.Schedules {
			names = append(names, l.Schedules[i].Name)
		}
		slices.Sort(names)
		return err
	}
	err = a.toComplete(cmd, func(ctx context.Context, c *client.Client, cfg *config.Config) error {
		s, err := openSchedules(ctx, c, cfg, zerolog.Nop())
		if err != nil {
			return err
		}
		return list(s.List(ctx, scheduler.Filter{Space: space}))
	}, func(ctx context.Context, c *apiclient.Client) error {
		return list(c.Schedules().List(ctx, scheduler.Filter{Space: space}))
	})
	return names, err
}
