package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// filterFlags say which jobs are meant.
type filterFlags struct {
	spaces       []string
	allSpaces    bool
	queue, typ   string
	statuses     []string
	since, until string

	from, to moment // once they are read
}

// narrowing are the flags that leave jobs out. (That jobs of every space are meant does not.)
const narrowing = "space queue type status since until"

// add adds the flags; statuses are those that a shell offers.
func (f *filterFlags) add(cmd *cobra.Command, statuses []job.Status) {
	f.addLive(cmd, statuses)
	fl := cmd.Flags()
	fl.StringVar(&f.since, "since", "", "last updated at this instant or later, or so long ago at most: 12h, 7d, 2030-01-31T09:00:00Z")
	fl.StringVar(&f.until, "until", "", "last updated before this instant, or longer ago")
}

// addLive adds those of the flags that fit what happens now.
func (f *filterFlags) addLive(cmd *cobra.Command, statuses []job.Status) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.spaces, "space", nil, "of this space; may be given several times (default "+job.DefaultSpace+")")
	fl.BoolVar(&f.allSpaces, "all-spaces", false, "of every space")
	fl.StringVar(&f.queue, "queue", "", "of this queue")
	fl.StringVar(&f.typ, "type", "", "of this type")
	fl.StringSliceVar(&f.statuses, "status", nil, "of these statuses: "+joinStatuses(statuses))
	offer(cmd, "status", statusNames(statuses))
}

// filter is what the flags say, but for the instants: these need the store's clock.
func (f *filterFlags) filter(cmd *cobra.Command) (job.Filter, error) {
	// What a script's variable leaves empty by mistake must not mean all.
	for name := range strings.FieldsSeq(narrowing) {
		if fl := cmd.Flags().Lookup(name); fl != nil && fl.Changed && noValue(fl.Value.String()) {
			return job.Filter{}, usagef("--%s: must not be empty", name)
		}
	}
	out := job.Filter{Spaces: f.spaces, AllSpaces: f.allSpaces, Queue: f.queue, Type: f.typ}
	if f.allSpaces && len(f.spaces) > 0 {
		return out, usagef("--all-spaces: name spaces with --space or ask for all of them, not both")
	}
	if !f.allSpaces && len(f.spaces) == 0 {
		out.Spaces = []string{job.DefaultSpace}
	}
	for _, s := range f.statuses {
		out.Statuses = append(out.Statuses, job.Status(strings.TrimSpace(s)))
	}
	var err error
	if f.from, err = parseMoment("since", f.since); err != nil {
		return out, err
	}
	if f.to, err = parseMoment("until", f.until); err != nil {
		return out, err
	}
	return out, out.Validate()
}

// noValue: the value of a flag, of which lists show their brackets.
func noValue(value string) bool { return value == "" || value == "[]" }

// at completes a filter with its instants, seen from the store's now.
func (f *filterFlags) at(filter *job.Filter, now time.Time) error {
	filter.From, filter.To = f.from.of(now), f.to.of(now)
	if !filter.From.IsZero() && !filter.To.IsZero() && !filter.From.Before(filter.To) {
		return usagef("--until: must be later than --since")
	}
	return nil
}

// fixed are the flags that say as instants what may have been said as how long ago.
func (f *filterFlags) fixed(filter *job.Filter) string {
	flags := ""
	if f.since != "" {
		flags += "--since " + instant(filter.From) + " "
	}
	if f.until != "" {
		flags += "--until " + instant(filter.To) + " "
	}
	return flags
}

// narrows reports whether any flag leaves jobs out.
func (f *filterFlags) narrows(cmd *cobra.Command) bool {
	for name := range strings.FieldsSeq(narrowing) {
		if cmd.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// describe says in words which jobs a filter means.
func describe(f *job.Filter) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	if f.AllSpaces {
		add("of", "every space")
	} else {
		spaces := make([]string, len(f.Spaces))
		for i, s := range f.Spaces {
			spaces[i] = safe(s)
		}
		add("of space", strings.Join(spaces, " or "))
	}
	add("on queue", safe(f.Queue))
	add("of type", safe(f.Type))
	if len(f.Statuses) > 0 {
		add("that are", strings.Join(statusNames(f.Statuses), " or "))
	}
	add("updated since", instant(f.From))
	add("updated before", instant(f.To))
	return strings.Join(parts, ", ")
}

func statusNames(all []job.Status) []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return names
}

func joinStatuses(all []job.Status) string { return strings.Join(statusNames(all), ", ") }
