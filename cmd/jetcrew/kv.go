package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// errNoKey: what was asked for is not in the key/value store.
var errNoKey = errors.New("there is no")

const valueHelp = `A value is JSON, such as 42, "text" or '{"a":1}'; with --string the text as it is. - stands for
what comes by stdin. One that begins with - itself, such as -5, stands after --.`

func (a *app) newKV() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kv",
		Short: "Read and write the key/value store that jobs' handlers have",
		Long: `Values, counters and ranked lists by key, in spaces that cannot reach each other: those that a
handler finds by kv.FromContext in the space of its job.`,
		Example: `  jetcrew kv set greeting '{"text":"hello"}' --ttl 7d
  jetcrew kv get greeting
  jetcrew kv incr visits --ttl 1m
  jetcrew kv list put board ada 12.5
  jetcrew kv watch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newKVGet(), a.newKVSet(), a.newKVDelete(), a.newKVIncr(), a.newKVExpire(), a.newKVSwap(),
		a.newKVKeys(), a.newKVWatch(), a.newKVList(), a.newKVWipe())
	cmd.PersistentFlags().String("space", job.DefaultSpace, "space (tenant) of the keys")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if strings.HasPrefix(err.Error(), "unknown shorthand flag: ") {
			return usagef("%w: what begins with - and is no flag stands after --", err)
		}
		return usageError{err}
	})
	for _, sub := range cmd.Commands() {
		if strings.Contains(sub.Use, " KEY") {
			sub.ValidArgsFunction = a.completeKey
		}
	}
	return cmd
}

// spaceOf is the name of the space that a command is about.
func spaceOf(cmd *cobra.Command) (string, error) {
	name, err := cmd.Flags().GetString("space")
	if err != nil {
		return "", err
	}
	if err := job.ValidateName("space", name, job.MaxName); err != nil {
		return "", usagef("--%w", err)
	}
	return name, nil
}

// kvError is an error of the store, for the exit code.
func kvError(err error) error {
	switch {
	case errors.Is(err, kv.ErrKey), errors.Is(err, kv.ErrTTL):
		return usageError{err}
	case errors.Is(err, kv.ErrNotInteger):
		return unchangedError{err.Error()}
	}
	return err
}

// checkKey refuses what no space has as a key, before anybody is asked.
func checkKey(what, key string) error {
	if err := kv.CheckKey(key); err != nil {
		return usagef("%s: %w", what, err)
	}
	return nil
}

// ttlFlag adds the flag of a lifetime.
func ttlFlag(cmd *cobra.Command, to *time.Duration, usage string) {
	durationFlag(cmd.Flags(), to, "ttl", 0, usage)
}

func checkTTL(ttl time.Duration) error {
	if err := kv.CheckTTL(ttl); err != nil {
		return usagef("--ttl: %w", err)
	}
	return nil
}

// value reads what was given as a value: as JSON, or as the text that it is.
func (a *app) value(what, given string, asString bool) (jsontext.Value, error) {
	if given == "-" {
		b, err := io.ReadAll(io.LimitReader(a.stdin, maxInput+1))
		if err != nil {
			return nil, fmt.Errorf("%s: read stdin: %w", what, err)
		}
		if len(b) > maxInput {
			return nil, usagef("%s: stdin has more than %d bytes", what, maxInput)
		}
		given = string(b)
	}
	if asString {
		v, err := jsontext.AppendQuote(nil, given)
		if err != nil {
			return nil, usagef("%s: is not valid UTF-8", what)
		}
		return v, nil
	}
	var v jsontext.Value
	if err := job.Decode([]byte(given), &v); err != nil {
		return nil, usagef("%s: must be one JSON value, such as 42, \"text\" or {\"a\":1}, or any text with --string: %w", what, err)
	}
	return v, nil
}

// showJSON is a stored value on one line, safe for a terminal.
func (a *app) showJSON(v jsontext.Value) string {
	v = v.Clone()
	if err := v.Compact(); err != nil { // what was read as a value is one
		return safe(string(v))
	}
	if isTerminal(a.stdout) {
		return safe(string(v))
	}
	return string(v)
}

// cell is a stored value in a table.
func cell(v jsontext.Value) string {
	v = v.Clone()
	_ = v.Compact() // what is no value is shown as it is
	return shorten(safe(string(v)), 80)
}

// kvOutput is a key as JSON, and what became of it.
type kvOutput struct {
	Space string         `json:"space"`
	Key   string         `json:"key"`
	Value jsontext.Value `json:"value,omitzero"`
	Done  *bool          `json:"done,omitzero"`
}

// done prints what became of a key, and is the error that it was not done.
func (a *app) done(asJSON bool, s keySpace, key string, done bool, said string, not error) error {
	if asJSON {
		if err := a.printJSONLine(kvOutput{Space: s.Name(), Key: key, Done: &done}); err != nil {
			return err
		}
	}
	switch {
	case !done:
		return not
	case asJSON:
		return nil
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s\n", safe(key), said)
	return err
}

// noKey says that a key is not there.
func noKey(s keySpace, key string) error {
	return fmt.Errorf("%w key %q in space %q", errNoKey, key, s.Name())
}
