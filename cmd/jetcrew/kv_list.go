package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func (a *app) newKVList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Ranked lists: entries by score, the highest first",
		Long: fmt.Sprintf(`A list has at most %d entries, each with an id, a score and a value; the highest score comes
first, and where scores are equal the id decides. A list and a key may be called the same.`, kv.MaxEntries),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newKVListRange(), a.newKVListPut(), a.newKVListRemove(), a.newKVListDelete(), a.newKVListNames())
	for _, sub := range cmd.Commands() {
		if strings.Contains(sub.Use, " LIST") {
			sub.ValidArgsFunction = a.completeListName
		}
	}
	return cmd
}

func (a *app) newKVListRange() *cobra.Command {
	var offset, limit int
	var ascending, asJSON bool
	cmd := &cobra.Command{
		Use:   "range LIST",
		Short: "Show the entries of a list",
		Long: `Shows entries of a list, the highest score first, or with --ascending last. A list that is not
there has none.`,
		Example: `  jetcrew kv list range board --limit 10
  jetcrew kv list range board --ascending --json | jq -r '.entries[].id'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkKey("LIST", args[0]); err != nil {
				return err
			}
			for _, f := range []struct {
				name string
				n    int
			}{{"offset", offset}, {"limit", limit}} {
				if f.n < 0 {
					return usagef("--%s: must not be negative, but is %d", f.name, f.n)
				}
			}
			order := kv.Descending
			if ascending {
				order = kv.Ascending
			}
			return a.withSpace(cmd, requestTimeout, func(ctx context.Context, s keySpace) error {
				entries, err := s.ranked(args[0]).Range(ctx, offset, limit, order)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSONLine(kvListOutput{Space: s.Name(), List: args[0], Entries: &entries})
				}
				a.showEntries(entries)
				return nil
			})
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&offset, "offset", 0, "leave out so many first")
	fl.IntVar(&limit, "limit", kv.MaxEntries, "show so many at most")
	fl.BoolVar(&ascending, "ascending", false, "the lowest score first")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// kvListOutput is a list as JSON, and what became of it.
type kvListOutput struct {
	Space   string      `json:"space"`
	List    string      `json:"list"`
	ID      string      `json:"id,omitzero"`
	Done    *bool       `json:"done,omitzero"`
	Entries *[]kv.Entry `json:"entries,omitzero"`
	Dropped *[]kv.Entry `json:"dropped,omitzero"`
}

func (a *app) showEntries(entries []kv.Entry) {
	if len(entries) == 0 {
		return
	}
	t := a.table("ID", "SCORE", "VALUE")
	for _, e := range entries {
		t.AppendRow(table.Row{safe(e.ID), score(e.Score), cell(e.Value)})
	}
	t.Render()
}

// score is a score as JSON has it.
func score(n float64) string {
	b, err := job.Encode(n)
	if err != nil { // it is finite
		return fmt.Sprint(n)
	}
	return string(b)
}

func (a *app) newKVListPut() *cobra.Command {
	var keep int
	var higherOnly, asString, asJSON bool
	cmd := &cobra.Command{
		Use:   "put LIST ID SCORE [VALUE]",
		Short: "Add an entry to a list, or replace it",
		Long: fmt.Sprintf(`Adds an entry, or replaces the one of that id: 1 to %d of A-Z a-z 0-9 : _ . @ -. Without VALUE
its value is null. What falls off the end is told. With --higher-only an entry whose score is
higher stays as it is, and the exit code is 8.

`, kv.MaxEntryID) + valueHelp,
		Example: `  jetcrew kv list put board ada 300 '{"level":"one"}' --keep 10 --higher-only
  jetcrew kv list put temperatures oslo -- -11.5`,
		Args: cobra.RangeArgs(3, 4),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkKey("LIST", args[0]); err != nil {
				return err
			}
			n, err := strconv.ParseFloat(args[2], 64)
			if err != nil || strings.ContainsAny(args[2], "_xX") {
				return usagef("SCORE: must be a finite decimal number, such as 12.5 or 1e6, not %q", shorten(args[2], 80))
			}
			if keep < 0 || keep > kv.MaxEntries {
				return usagef("--keep: must be 0 to %d, not %d", kv.MaxEntries, keep)
			}
			v := jsontext.Value("null")
			if len(args) == 4 {
				if v, err = a.value("VALUE", args[3], asString); err != nil {
					return err
				}
			} else if asString {
				return usagef("--string goes with VALUE")
			}
			return a.withSpace(cmd, requestTimeout, func(ctx context.Context, s keySpace) error {
				stored, dropped, err := s.ranked(args[0]).Put(ctx, args[1], n, v, keep, higherOnly)
				if err != nil {
					return err
				}
				return a.sayPut(s, args[0], args[1], stored, dropped, asJSON)
			})
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&keep, "keep", kv.MaxEntries, "how many entries the list shall have at most, the highest ones")
	fl.BoolVar(&higherOnly, "higher-only", false, "leave an entry as it is if its score is higher")
	fl.BoolVar(&asString, "string", false, "the value is text, not JSON")
	fl.BoolVar(&asJSON, "json", false, "print JSON: \"done\" says whether it was stored, \"dropped\" what fell off")
	return cmd
}

// sayPut says what became of an entry.
func (a *app) sayPut(s keySpace, list, id string, stored bool, dropped []kv.Entry, asJSON bool) error {
	if asJSON {
		if dropped == nil {
			dropped = []kv.Entry{}
		}
		if err := a.printJSONLine(kvListOutput{Space: s.Name(), List: list, ID: id, Done: &stored, Dropped: &dropped}); err != nil {
			return err
		}
	}
	switch {
	case !stored:
		return unchangedError{fmt.Sprintf("entry %s of list %q in space %q has a higher score: nothing was changed", id, list, s.Name())}
	case asJSON:
		return nil
	}
	if _, err := fmt.Fprintf(a.stdout, "%s stored\n", id); err != nil {
		return err
	}
	for _, e := range dropped {
		if _, err := fmt.Fprintf(a.stdout, "%s fell off\n", safe(e.ID)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) newKVListRemove() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "remove LIST ID",
		Short:   "Remove an entry of a list",
		Long:    `Removes an entry. Exits with 3 if there is no such entry.`,
		Example: `  jetcrew kv list remove board ada`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkKey("LIST", args[0]); err != nil {
				return err
			}
			return a.withSpace(cmd, requestTimeout, func(ctx context.Context, s keySpace) error {
				was, err := s.ranked(args[0]).Remove(ctx, args[1])
				if err != nil {
					return err
				}
				if asJSON {
					if err := a.printJSONLine(kvListOutput{Space: s.Name(), List: args[0], ID: args[1], Done: &was}); err != nil {
						return err
					}
				}
				switch {
				case !was:
					return fmt.Errorf("%w entry %q in list %q of space %q", errNoKey, args[1], args[0], s.Name())
				case asJSON:
					return nil
				}
				_, err = fmt.Fprintf(a.stdout, "%s removed\n", safe(args[1]))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: \"done\" says whether it was there")
	return cmd
}

func (a *app) newKVListDelete() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "delete LIST",
		Short:   "Remove a list",
		Long:    `Removes a list. One that is not there is none the less gone.`,
		Example: `  jetcrew kv list delete board`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkKey("LIST", args[0]); err != nil {
				return err
			}
			return a.withSpace(cmd, requestTimeout, func(ctx context.Context, s keySpace) error {
				if err := s.ranked(args[0]).Delete(ctx); err != nil {
					return err
				}
				done := true
				if asJSON {
					return a.printJSONLine(kvListOutput{Space: s.Name(), List: args[0], Done: &done})
				}
				_, err := fmt.Fprintf(a.stdout, "%s deleted\n", safe(args[0]))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) newKVListNames() *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "names [PREFIX]",
		Short:   "List the lists of a space",
		Example: `  jetcrew kv list names --space acme`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.listKeys(cmd, args, limit, asJSON, "lists", keySpace.ListNames)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "stop after so many (0: all)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
