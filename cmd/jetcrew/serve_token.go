package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/httpapi"
)

func (a *app) newHashToken() *cobra.Command {
	var name string
	var spaces, scopes []string
	cmd := &cobra.Command{
		Use:   "hash-token",
		Short: "Print the line by which the API knows a token",
		Long: `Reads a token from standard input and prints the line for JETCREW_API_TOKENS_FILE:
the token's name, its hash, the spaces that it is good for, and its scopes ("jetcrew token
create --help" says what each allows). The token itself is kept nowhere. It has to be long and
random: its hash is a plain SHA-256. "jetcrew token create" makes tokens that need no file.`,
		Example: `  openssl rand -hex 32 | tee token | jetcrew serve hash-token --name shop --space acme >> tokens`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			secret, err := bufio.NewReader(io.LimitReader(a.stdin, 4096)).ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read the token: %w", err)
			}
			var given []httpapi.Scope
			for _, s := range scopes {
				given = append(given, httpapi.Scope(s))
			}
			line, err := httpapi.HashToken(name, strings.TrimRight(secret, "\r\n"), spaces, given...)
			if err != nil {
				return usageError{err}
			}
			_, err = fmt.Fprintln(a.stdout, line)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the token, as the log shows it (required)")
	cmd.Flags().StringArrayVar(&spaces, "space", nil, "a space that it is good for; can be given again (default all)")
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "a scope; can be given again, or several separated by commas (default all)")
	return cmd
}
