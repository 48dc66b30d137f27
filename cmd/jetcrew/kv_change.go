package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/config"
)

func (a *app) newKVIncr() *cobra.Command {
	var by int64
	var ttl time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "incr KEY",
		Short: "Add to a counter, and print the sum",
		Long: `Adds to a counter, which begins at zero, and prints the sum. Whoever makes the counter gives
it its lifetime, and nobody extends it. Exits with 8 if the value is no integer, or the sum
would leave the 64 bits of one.`,
		Example: `  jetcrew kv incr visits
  jetcrew kv incr logins/ada --ttl 1m
  jetcrew kv incr stock --by -3`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			if err := errors.Join(checkKey("KEY", key), checkTTL(ttl)); err != nil {
				return err
			}
			return a.withSpace(cmd, requestTimeout, func(ctx context.Context, s keySpace) error {
				sum, err := s.Increment(ctx, key, by, ttl)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSONLine(kvOutput{Space: s.Name(), Key: key, Value: jsontext.Value(strconv.FormatInt(sum, 10))})
				}
				_, err = fmt.Fprintln(a.stdout, sum)
				return err
			})
		},
	}
	cmd.Flags().Int64Var(&by, "by", 1, "how much to add")
	ttlFlag(cmd, &ttl, "how long a counter that is new is kept, such as 90s or 7d (default for ever)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: \"value\" is the sum")
	return cmd
}

func (a *app) newKVExpire() *cobra.Command {
	var ttl time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "expire KEY --ttl D",
		Short: "Give a key another lifetime",
		Long: `Gives a key a lifetime that begins now, or with --ttl 0s none, so that it stays. Exits with 3
if there is no such key.`,
		Example: `  jetcrew kv expire session --ttl 30m
  jetcrew kv expire session --ttl 0s`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			if err := errors.Join(checkKey("KEY", key), checkTTL(ttl)); err != nil {
				return err
			}
			if !cmd.Flags().Changed("ttl") {
				return usagef("--ttl: say how long the key is kept, such as 90s or 7d, or 0s for ever")
			}
			return a.withSpace(cmd, requestTimeout, func(ctx context.Context, s keySpace) error {
				there, err := s.Expire(ctx, key, ttl)
				if err != nil {
					return err
				}
				said := "stays"
				if ttl > 0 {
					said = "expires in " + config.FormatDuration(ttl)
				}
				return a.done(asJSON, s, key, there, said, noKey(s, key))
			})
		},
	}
	ttlFlag(cmd, &ttl, "how long it is kept from now on, such as 90s or 7d; 0s: for ever")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: \"done\" says whether there is such a key")
	return cmd
}

func (a *app) newKVSwap() *cobra.Command {
	var expected string
	var absent, asString, asJSON bool
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "swap KEY NEW --expect OLD | swap KEY NEW --absent",
		Short: "Store a value only over the one that is expected",
		Long: `Stores a value if the key has the one that is expected, as "kv set" writes it, or with
--absent if there is none; otherwise the exit code is 8. Of several who try at once one wins.
An earlier lifetime is replaced, also by none.

` + valueHelp,
		Example: `  jetcrew kv swap lock '"worker-7"' --absent --ttl 30s
  jetcrew kv swap state '"open"' --expect '"closed"'
  jetcrew kv swap state open --expect closed --string`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			if err := errors.Join(checkKey("KEY", key), checkTTL(ttl)); err != nil {
				return err
			}
			if cmd.Flags().Changed("expect") == absent {
				return usagef("say what is expected: --expect and the value, or --absent")
			}
			if args[1] == "-" && expected == "-" {
				return usagef("NEW and --expect cannot both come by stdin")
			}
			next, err := a.value("NEW", args[1], asString)
			if err != nil {
				return err
			}
			var old any
			if !absent {
				v, err := a.value("--expect", expected, asString)
				if err != nil {
					return err
				}
				old = v
			}
			return a.withSpace(cmd, requestTimeout, func(ctx context.Context, s keySpace) error {
				won, err := s.Swap(ctx, key, old, next, ttl)
				if err != nil {
					return err
				}
				not := notExpected(s, key)
				if absent {
					not = unchangedError{fmt.Sprintf("key %q in space %q has a value: nothing was changed", key, s.Name())}
				}
				return a.done(asJSON, s, key, won, "swapped", not)
			})
		},
	}
	cmd.Flags().StringVar(&expected, "expect", "", "the value that the key has to have")
	cmd.Flags().BoolVar(&absent, "absent", false, "the key has to be absent")
	cmd.Flags().BoolVar(&asString, "string", false, "both values are text, not JSON")
	ttlFlag(cmd, &ttl, "how long it is kept, such as 90s or 7d (default for ever)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: \"done\" says whether it was stored")
	return cmd
}
