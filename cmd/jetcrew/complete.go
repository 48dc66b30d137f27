package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The flags and arguments whose values a shell completes with files or directories.
const (
	fileFlags = "credentials file handlers token-file"
	dirFlags  = "dir"
	dirArgs   = "demo"
)

var logLevels = []string{"trace", "debug", "info", "warn", "error"}

// addCompletion adds the command that prints what a shell needs, and has it refuse a shell that there is nothing for.
func (a *app) addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// complete has a shell offer what a value can be, and files only where one is meant.
func (a *app) complete(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { a.completeFlag(cmd, f) })
	cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { a.completeFlag(cmd, f) })
	if isOneOf(cmd.Name(), dirArgs) {
		cmd.ValidArgsFunction = completeDirs
	} else if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		a.complete(sub)
	}
}

func (a *app) completeFlag(cmd *cobra.Command, f *pflag.Flag) {
	if _, known := cmd.GetFlagCompletionFunc(f.Name); known {
		return // the command knows best
	}
	values := cobra.NoFileCompletions
	switch {
	case f.Value.Type() == "bool", isOneOf(f.Name, fileFlags):
		return // no value; a shell's own way
	case isOneOf(f.Name, dirFlags):
		values = completeDirs
	case f.Name == "queue":
		values = a.completeQueue
	case f.Name == "builtin":
		values = completeList(builtinTypes)
	case f.Name == "log-level":
		values = cobra.FixedCompletions(logLevels, cobra.ShellCompDirectiveNoFileComp)
	}
	if err := cmd.RegisterFlagCompletionFunc(f.Name, values); err != nil {
		panic(err) // the flag is the command's own, and seen once
	}
}

func completeDirs(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// offer has a shell complete a flag's value, or the last of a list of values that is separated by commas.
func offer(cmd *cobra.Command, flag string, values []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, completeList(values)); err != nil {
		panic(err) // the flag is the command's own, and seen once
	}
}

// completeList completes the last of a list that is separated by commas.
func completeList(values []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		var out []cobra.Completion
		for _, v := range values {
			if !isOneOf(v, strings.ReplaceAll(before, ",", " ")) {
				out = append(out, before+v)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// isOneOf reports whether a word is in a list of words.
func isOneOf(word, list string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}
