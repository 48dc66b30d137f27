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
	var spaces []string
	cmd := &cobra.Command{
		Use:   "hash-token",
		Short: "Print the line by which the API knows a token",
		Long: `Reads a token from standard input and prints the line for JETCREW_API_TOKENS_FILE:
the token's name, its hash, and the spaces that it is good for. The token itself is
kept nowhere. It has to be long and random: its hash is a plain SHA-256.`,
		Example: `  openssl rand -hex 32 | tee token | jetcrew serve hash-token --name shop --space acme >> tokens`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			secret, err := bufio.NewReader(io.LimitReader(a.stdin, 4096)).ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read the token: %w", err)
			}
			line, err := httpapi.HashToken(name, strings.TrimRight(secret, "\r\n"), spaces)
			if err != nil {
				return usageError{err}
			}
			_, err = fmt.Fprintln(a.stdout, line)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the token, as the log shows it (required)")
	cmd.Flags().StringArrayVar(&spaces, "space", nil, "a space that it is good for; can be given again (default all)")
	return cmd
}
