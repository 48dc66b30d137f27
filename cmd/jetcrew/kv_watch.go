package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func (a *app) newKVWatch() *cobra.Command {
	var changes, lists, asJSON bool
	cmd := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Show what is in a space, and what changes, live",
		Long: `Prints the values of a space, or those whose keys begin with PREFIX, and then a line for each
change, until Ctrl-C: "there" is what is there at the start, "set" a new value or lifetime, "deleted"
and "expired" what is there no more. With --lists it is about the space's lists instead.

What changes faster than it can be printed is shown as one change, by its newest state. What
happens while the connection is lost is shown when it is back.`,
		Example: `  jetcrew kv watch --space acme
  jetcrew kv watch logins/ --changes --json | jq -r .key`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix, err := prefixOf(args)
			if err != nil {
				return err
			}
			name, err := spaceOf(cmd)
			if err != nil {
				return err
			}
			// The log says when the connection is lost, and when it is back.
			return a.withClientLogging(cmd, forever, a.logger, func(ctx context.Context, c *client.Client) error {
				s := c.KV().Space(name)
				watch := s.Watch
				if lists {
					watch = s.WatchLists
				}
				for e, err := range watch(ctx, prefix, kv.WatchOptions{ChangesOnly: changes}) {
					if err != nil {
						return a.unlessStopped(kvError(err))
					}
					if err := a.showEvent(s, e, asJSON); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&changes, "changes", false, "leave out what is there at the start")
	cmd.Flags().BoolVar(&lists, "lists", false, "watch the lists, not the values")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, an event a line")
	return cmd
}

// eventOutput is an event as JSON.
type eventOutput struct {
	Event     kv.EventKind   `json:"event"`
	At        time.Time      `json:"at"`
	Space     string         `json:"space"`
	Key       string         `json:"key"`
	Value     jsontext.Value `json:"value,omitzero"`
	ExpiresAt time.Time      `json:"expiresAt,omitzero"`
}

// showEvent prints an event of a key.
func (a *app) showEvent(s *kv.Space, e kv.Event, asJSON bool) error {
	if e.Kind == kv.EventWatching { // where there is nothing yet, this is all that shows that it runs
		fmt.Fprintf(a.stderr, "watching the space %s: Ctrl-C ends it\n", safe(s.Name()))
		return nil
	}
	var v jsontext.Value
	if e.There() && e.Decode(&v) != nil { // bytes that no JSON can hold: what can be shown of them is
		b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(e.Value, "\uFFFD"))
		if err != nil {
			return fmt.Errorf("key %q in space %q: %w", e.Key, s.Name(), err)
		}
		v = b
	}
	if asJSON {
		return a.printJSONLine(eventOutput{Event: e.Kind, At: job.Millis(e.At), Space: s.Name(), Key: e.Key, Value: v, ExpiresAt: e.Expires})
	}
	line := fmt.Sprintf("%-24s  %-7s  %s", instant(e.At), e.Kind, safe(e.Key))
	if e.There() {
		line += "  " + shorten(safe(string(v)), 400)
	}
	if !e.Expires.IsZero() {
		line += "  expires at " + instant(e.Expires)
	}
	_, err := fmt.Fprintln(a.stdout, strings.TrimRight(line, " "))
	return err
}
