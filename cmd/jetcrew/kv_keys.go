package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/apiclient"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func (a *app) newKVKeys() *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "keys [PREFIX]",
		Short: "List the keys of a space",
		Long: `Lists the keys of a space's values, or those that begin with PREFIX, in the order of their
bytes. Those written or removed meanwhile may or may not be among them. With --limit it stops
after so many, whichever they are.

A key is one line: what would break it is written as \n, \t, \x1b or \u200e, and a backslash
as two. With --json keys stand as they are.`,
		Example: `  jetcrew kv keys
  jetcrew kv keys logins/ --space acme --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.listKeys(cmd, args, limit, asJSON, "keys", keySpace.Keys)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "stop after so many (0: all)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// listKeys prints the keys of a space, or the names of its lists.
func (a *app) listKeys(cmd *cobra.Command, args []string, limit int, asJSON bool, name string, list func(keySpace, context.Context, string) iter.Seq2[string, error]) error {
	prefix, err := prefixOf(args)
	if err != nil {
		return err
	}
	if limit < 0 {
		return usagef("--limit: must not be negative, but is %d", limit)
	}
	return a.withSpace(cmd, forever, func(ctx context.Context, s keySpace) error {
		keys, more, err := collect(list(s, ctx, prefix), limit)
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSONLine(map[string]any{"space": s.Name(), name: keys, "more": more})
		}
		for _, key := range keys {
			if _, err := fmt.Fprintln(a.stdout, keyLine(key)); err != nil {
				return err
			}
		}
		if more {
			fmt.Fprintf(a.stderr, "there are more: --limit is %d\n", limit)
		}
		return nil
	})
}

// keyLine is a key on a line of its own, of which no other key has the same: a backslash that is in the key stands doubled,
// so that it is told from one that stands for something else.
func keyLine(key string) string { return safe(strings.ReplaceAll(key, `\`, `\\`)) }

// prefixOf is the one argument that keys begin with, or none.
func prefixOf(args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	if err := kv.CheckPrefix(args[0]); err != nil {
		return "", usagef("PREFIX: %w", err)
	}
	return args[0], nil
}

// collect reads keys until there are enough (0: all), and answers whether there are more.
func collect(list iter.Seq2[string, error], limit int) (keys []string, more bool, err error) {
	keys = []string{}
	for key, err := range list {
		if err != nil {
			return nil, false, err
		}
		if more = limit > 0 && len(keys) == limit; more {
			break
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys, more, nil
}

func (a *app) newKVWipe() *cobra.Command {
	var f bulkFlags
	cmd := &cobra.Command{
		Use:   "wipe",
		Short: "Remove everything of a space: its values and its lists",
		Long: `Removes all values and lists of a space, those that are there when it begins. A terminal is
asked first, with their number; elsewhere --yes is needed. Asking again does no harm, and goes
on with what is left.`,
		Example: `  jetcrew kv wipe --space acme --dry-run
  jetcrew kv wipe --space acme --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !f.yes && !f.dryRun && !a.asks() {
				return usagef("this removes everything of a space, and there is no terminal to ask: say --yes, or --dry-run to count it")
			}
			return a.withSpace(cmd, forever, func(ctx context.Context, s keySpace) error { return a.wipe(ctx, s, &f) })
		},
	}
	f.addRun(cmd)
	return cmd
}

// wipe asks if it has to, and does it.
func (a *app) wipe(ctx context.Context, s keySpace, f *bulkFlags) error {
	n := 0
	if f.dryRun || !f.yes {
		for _, list := range []iter.Seq2[string, error]{s.Keys(ctx, ""), s.ListNames(ctx, "")} {
			for _, err := range list {
				if err != nil {
					return err
				}
				n++
			}
		}
	}
	if !f.dryRun {
		if !f.yes && n > 0 {
			question := fmt.Sprintf("remove %s of space %s", valuesAndLists(n), safe(s.Name()))
			if ok, err := a.confirm(ctx, question); !ok {
				return err
			}
		}
		var err error
		if n, err = s.Wipe(ctx); err != nil {
			if n > 0 {
				fmt.Fprintf(a.stderr, "broken off after at least %s had been removed: asking again goes on with what is left\n", valuesAndLists(n))
			}
			return err
		}
	}
	if f.json {
		return a.printJSONLine(struct {
			Space  string `json:"space"`
			Wiped  int    `json:"wiped"`
			DryRun bool   `json:"dryRun,omitzero"`
		}{s.Name(), n, f.dryRun})
	}
	said := "removed"
	if f.dryRun {
		said = "would be removed:"
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s\n", said, valuesAndLists(n))
	return err
}

func valuesAndLists(n int) string {
	if n == 1 {
		return "1 value or list"
	}
	return fmt.Sprintf("%d values and lists", n)
}

// completeKeys is how many keys a shell is offered at most.
const completeKeys = 100

// completeKey has a shell offer the keys of the space, for the first argument.
func (a *app) completeKey(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.completeFrom(cmd, args, typed, keySpace.Keys)
}

// completeListName is completeKey for the names of the space's lists.
func (a *app) completeListName(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.completeFrom(cmd, args, typed, keySpace.ListNames)
}

// completeFrom offers what begins with what was typed. Like completeQueue it makes nothing, takes no longer than a shell
// waits, and says nothing of what goes wrong.
func (a *app) completeFrom(cmd *cobra.Command, args []string, typed string, list func(keySpace, context.Context, string) iter.Seq2[string, error]) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	keys, err := a.keysFor(cmd, typed, list)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, key := range keys {
		if safe(key) == key { // others would reach the terminal as they are
			out = append(out, key)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) keysFor(cmd *cobra.Command, typed string, list func(keySpace, context.Context, string) iter.Seq2[string, error]) ([]string, error) {
	space, err := spaceOf(cmd)
	if err != nil {
		return nil, err
	}
	var keys []string
	err = a.toComplete(cmd, func(ctx context.Context, c *client.Client, _ *config.Config) error {
		keys, _, err = collect(list(storedSpace{c.KV().Space(space)}, ctx, typed), completeKeys)
		return err
	}, func(ctx context.Context, c *apiclient.Client) error {
		keys, _, err = collect(list(apiSpace{c.Space(space)}, ctx, typed), completeKeys)
		return err
	})
	return keys, err
}
