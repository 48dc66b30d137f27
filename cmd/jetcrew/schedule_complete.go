package main

import (
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

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

// scheduleNames asks for the names of a space's schedules, as flags and environment say where. It makes nothing.
func (a *app) scheduleNames(cmd *cobra.Command) ([]string, error) {
	ctx, c, cfg, end, err := a.connectToComplete(cmd)
	if err != nil {
		return nil, err
	}
	defer end()
	s, err := openSchedules(ctx, c, cfg, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	space := job.DefaultSpace
	if f := cmd.Flags().Lookup("space"); f != nil && f.Value.String() != "" {
		space = f.Value.String()
	}
	l, err := s.List(ctx, scheduler.Filter{Space: space})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range l.Schedules {
		names = append(names, l.Schedules[i].Name)
	}
	slices.Sort(names)
	return names, nil
}
