package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The flags and arguments whose values a shell completes with files or directories.
const (
	fileFlags = "credentials file handlers"
	dirFlags  = "dir"
	dirArgs   = "demo"
)

var logLevels = []string{"trace", "debug", "info", "warn", "error"}

// complete has a shell offer what a value can be, and files only where one is meant.
func complete(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { completeFlag(cmd, f) })
	cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { completeFlag(cmd, f) })
	if isOneOf(cmd.Name(), dirArgs) {
		cmd.ValidArgsFunction = completeDirs
	} else if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}

func completeFlag(cmd *cobra.Command, f *pflag.Flag) {
	values := cobra.NoFileCompletions
	switch {
	case f.Value.Type() == "bool", isOneOf(f.Name, fileFlags):
		return // no value; a shell's own way
	case isOneOf(f.Name, dirFlags):
		values = completeDirs
	case f.Name == "builtin":
		values = completeBuiltins
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

// completeBuiltins completes the last of a list that is separated by commas.
func completeBuiltins(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	var out []cobra.Completion
	for _, t := range builtinTypes {
		if !isOneOf(t, strings.ReplaceAll(before, ",", " ")) {
			out = append(out, before+t)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
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
