package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
)

// maxRefusalsListed is how many records there can be.
const maxRefusalsListed = 600

func (a *app) newRefusal() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "refusal",
		Short: "See which requests the HTTP API refused, and what an error id stands for",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newRefusalList(), a.newRefusalError())
	return cmd
}

func (a *app) newRefusalList() *cobra.Command {
	var since time.Duration
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the requests that were refused before they ran",
		Long: `Lists the requests that the API refused before they did anything, the newest first: whose
they were, what they asked for, and why not. Alike ones of a token within a minute share a
record, as do those of anybody without a token within an hour. They are there after a few
seconds and stay for 7 days, the newest 300 of each of the two kinds.`,
		Example: `  jetcrew refusal list --since 1h
  jetcrew refusal list --json | jq '.refusals[] | select(.code == "rate_limited")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxRefusalsListed {
				return usagef("--limit: must be from 1 to %d, but is %d", maxRefusalsListed, limit)
			}
			if since < 0 {
				return usagef("--since: must not be negative, but is %s", since)
			}
			return a.withAccess(cmd, func(ctx context.Context, c *client.Client, access *httpapi.Access) error {
				var from time.Time
				if since > 0 {
					from = c.Now().Add(-since)
				}
				list, err := access.Refusals(ctx, from, limit)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(httpapi.RefusalList{Refusals: list})
				}
				a.showRefusals(list)
				return nil
			})
		},
	}
	durationFlag(cmd.Flags(), &since, "since", 0, "only those of so long ago at most, such as 1h (default all)")
	cmd.Flags().IntVar(&limit, "limit", 100, "so many records at most")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) showRefusals(list []httpapi.Refusal) {
	if len(list) == 0 {
		fmt.Fprintln(a.stderr, "no requests were refused")
		return
	}
	t := a.table("LAST", "COUNT", "TOKEN", "OPERATION", "SPACE", "CODE", "DETAIL", "REQUEST")
	for _, r := range list {
		t.AppendRow(table.Row{
			instant(r.LastAt), r.Count, safe(cmp.Or(r.Token, "none: "+r.From)), safe(cmp.Or(r.Operation, "no such path")), shorten(r.Space, 40),
			string(r.Code), shorten(r.Detail, 60), safe(r.Request),
		})
	}
	t.Render()
}

func (a *app) newRefusalError() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "error ID",
		Short: "Show what an error id stands for",
		Long: `Shows what a caller of the API was not shown, and got the errorId of instead. It is there
after a few seconds and stays for 7 days, unless too many others follow; the log of "jetcrew
serve" has all of them.`,
		Example: `  jetcrew refusal error k3vq2mxw5tz7a4bn`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withAccess(cmd, func(ctx context.Context, _ *client.Client, access *httpapi.Access) error {
				f, err := access.Failure(ctx, args[0])
				switch {
				case errors.Is(err, httpapi.ErrNoRecord):
					return fmt.Errorf("%w record of error %q: there may be one in a few seconds, and the log has it", errNoKey, args[0])
				case err != nil:
					return err
				case asJSON:
					return a.printJSON(f)
				}
				_, err = fmt.Fprintf(a.stdout, "%s  %s  %d %s\ntoken    %s\nspace    %s\nrequest  %s\n\n%s\n", instant(f.At), safe(f.Operation), f.Status,
					safe(string(f.Code)), safe(cmp.Or(f.Token, "none")), safe(cmp.Or(f.Space, "none")), safe(f.Request), safe(f.Error))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
