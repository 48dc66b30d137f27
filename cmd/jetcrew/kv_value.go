package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func (a *app) newKVGet() *cobra.Command {
	var raw, asJSON bool
	cmd := &cobra.Command{
		Use:   "get KEY",
		Short: "Print a key's value",
		Long: `Prints a key's value as JSON on one line; with --raw a string as it is, without quotes.
What something else wrote and is no JSON is the string that it is. Exits with 3 if there is
no such key.`,
		Example: `  jetcrew kv get greeting | jq .text
  jetcrew kv get motd --raw --space acme`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			if err := checkKey("KEY", key); err != nil {
				return err
			}
			if raw && asJSON {
				return usagef("give --raw or --json, not both")
			}
			return a.withSpace(cmd, requestTimeout, func(ctx context.Context, s keySpace) error {
				if raw {
					return a.getRaw(ctx, s, key)
				}
				v, ok, err := valueOf[jsontext.Value](ctx, s, key)
				switch {
				case err != nil:
					return err
				case !ok:
					return noKey(s, key)
				case asJSON:
					return a.printJSONLine(kvOutput{Space: s.Name(), Key: key, Value: v})
				}
				_, err = fmt.Fprintln(a.stdout, a.showJSON(v))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print a string without quotes")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: space, key and value")
	return cmd
}

// plainValue is a stored value as a person would have it: a string as it is, all else as JSON.
type plainValue string

func (p *plainValue) UnmarshalJSON(b []byte) error {
	var s string
	if job.Decode(b, &s) != nil {
		s = string(b)
	}
	*p = plainValue(s)
	return nil
}

func (a *app) getRaw(ctx context.Context, s keySpace, key string) error {
	v, ok, err := valueOf[plainValue](ctx, s, key)
	if err != nil { // bytes that no JSON can hold
		var raw any
		if there, rerr := s.Get(ctx, key, &raw); rerr == nil && there {
			if bytes, is := raw.(string); is {
				v, ok, err = plainValue(bytes), true, nil
			}
		}
	}
	switch {
	case err != nil:
		return err
	case !ok:
		return noKey(s, key)
	case isTerminal(a.stdout):
		v = plainValue(safe(string(v)))
	}
	_, err = fmt.Fprintln(a.stdout, string(v))
	return err
}

func (a *app) newKVSet() *cobra.Command {
	var ttl time.Duration
	var asString, asJSON bool
	cmd := &cobra.Command{
		Use:   "set KEY VALUE",
		Short: "Store a value",
		Long: `Stores a value. An earlier lifetime is replaced, also by none.

` + valueHelp,
		Example: `  jetcrew kv set greeting '{"text":"hello"}'
  jetcrew kv set motd 'back at noon' --string --ttl 90m
  jq . config.json | jetcrew kv set config - --space acme
  jetcrew kv set balance -- -5`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			err := errors.Join(checkKey("KEY", key), checkTTL(ttl))
			if err != nil {
				return err
			}
			v, err := a.value("VALUE", args[1], asString)
			if err != nil {
				return err
			}
			return a.withSpace(cmd, requestTimeout, func(ctx context.Context, s keySpace) error {
				if err := s.Set(ctx, key, v, ttl); err != nil {
					return err
				}
				return a.done(asJSON, s, key, true, "set", nil)
			})
		},
	}
	ttlFlag(cmd, &ttl, "how long it is kept, such as 90s or 7d (default for ever)")
	cmd.Flags().BoolVar(&asString, "string", false, "the value is text, not JSON")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) newKVDelete() *cobra.Command {
	var expected string
	var asString, asJSON bool
	cmd := &cobra.Command{
		Use:   "delete KEY",
		Short: "Remove a key",
		Long: `Removes a key. One that is not there is none the less gone. With --if it is removed only if
its value is the one that is given, as "kv set" writes it; otherwise the exit code is 8.

` + valueHelp,
		Example: `  jetcrew kv delete greeting
  jetcrew kv delete lock --if '"worker-7"'
  jetcrew kv delete lock --if worker-7 --string`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			if err := checkKey("KEY", key); err != nil {
				return err
			}
			onlyIf := cmd.Flags().Changed("if")
			if asString && !onlyIf {
				return usagef("--string goes with --if")
			}
			var v jsontext.Value
			if onlyIf {
				var err error
				if v, err = a.value("--if", expected, asString); err != nil {
					return err
				}
			}
			return a.withSpace(cmd, requestTimeout, func(ctx context.Context, s keySpace) error {
				gone := true
				var err error
				if onlyIf {
					gone, err = s.DeleteIf(ctx, key, v)
				} else {
					err = s.Delete(ctx, key)
				}
				if err != nil {
					return err
				}
				return a.done(asJSON, s, key, gone, "deleted", notExpected(s, key))
			})
		},
	}
	cmd.Flags().StringVar(&expected, "if", "", "remove it only if it has this value")
	cmd.Flags().BoolVar(&asString, "string", false, "the value of --if is text, not JSON")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: \"done\" says whether it was removed")
	return cmd
}

// notExpected says that a key was left as it is.
func notExpected(s keySpace, key string) error {
	return unchangedError{fmt.Sprintf("key %q in space %q does not have the value that was expected: nothing was changed", key, s.Name())}
}
