package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func (a *app) newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Say who may call the HTTP API",
		Long: `Makes, lists and revokes the tokens with which programs and people call the API of
"jetcrew serve". They are kept as hashes beside the key/value store, where no space reaches
them, and each API knows of a change within a second or two.

Once a token has been made, nobody calls without one, also after the last was revoked.`,
		Example: `  jetcrew token create --name shop --scope enqueue --scope read --space acme --expires 90d
  jetcrew token list
  jetcrew token revoke shop`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newTokenCreate(), a.newTokenList(), a.newTokenRevoke())
	return cmd
}

// withAccess runs fn with what the fleet's APIs remember of who may call.
func (a *app) withAccess(cmd *cobra.Command, fn func(context.Context, *client.Client, *httpapi.Access) error) error {
	cfg, err := a.load(cmd)
	if err != nil {
		return err
	}
	return a.withClient(cmd, requestTimeout, func(ctx context.Context, c *client.Client) error {
		access := newAccess(c, cfg, a.quietLogger(cfg))
		defer access.Close()
		return fn(ctx, c, access)
	})
}

func (a *app) newTokenCreate() *cobra.Command {
	var name string
	var scopes, spaces []string
	var expires time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token, and print its secret this once",
		Long: `Makes a token and prints its secret, which is kept nowhere: whoever loses it makes another
token. Callers send it as "Authorization: Bearer SECRET".

Scopes, each of which allows some operations and none of which includes another:

  read       look at jobs, queues, workers and schedules
  enqueue    put jobs in
  call       put jobs in and be told what comes of them, and cancel these
  operate    steer jobs, run a schedule's job now, and see what was refused
  configure  set queues and schedules
  kv-read    read the key/value store
  kv-write   change it
  admin      make and revoke tokens, and so give out every scope; for all spaces alone

A token that names spaces has to do with these only, and nothing with what belongs to all,
such as queues. The name may be that of a token that was revoked or has expired.`,
		Example: `  jetcrew token create --name shop --scope enqueue --scope read --space acme --expires 90d
  jetcrew token create --name ops --scope read,operate,configure > ops-token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec := httpapi.TokenSpec{Name: name, Spaces: spaces, Expires: expires}
			for _, s := range scopes {
				spec.Scopes = append(spec.Scopes, httpapi.Scope(s))
			}
			return a.withAccess(cmd, func(ctx context.Context, _ *client.Client, access *httpapi.Access) error {
				t, secret, err := access.CreateToken(ctx, spec)
				if err != nil {
					return tokenError(err)
				}
				if asJSON {
					return a.printJSON(httpapi.TokenMade{Token: t, Secret: secret})
				}
				fmt.Fprintf(a.stderr, "token %s is good for %s, %s; this is its secret, which is shown this once:\n", t.Name, joined(t.Scopes), spacesOf(t))
				_, err = fmt.Fprintln(a.stdout, secret)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the token, as the log and the records show it (required)")
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "a scope; can be given again, or several separated by commas (required)")
	cmd.Flags().StringArrayVar(&spaces, "space", nil, "a space that it is good for; can be given again (default all)")
	durationFlag(cmd.Flags(), &expires, "expires", 0, "how long it is good for, such as 90d (default until it is revoked)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// tokenError is an error of stored tokens, for the exit code, and in the words of flags.
func tokenError(err error) error {
	var field *job.FieldError
	switch {
	case errors.As(err, &field):
		flag := map[string]string{"scopes": "scope", "spaces": "space"}[field.Field]
		if flag == "" {
			flag = field.Field
		}
		return usagef("--%s: %s", flag, field.Reason)
	case errors.Is(err, httpapi.ErrTokenExists), errors.Is(err, httpapi.ErrManyTokens):
		return unchangedError{err.Error()}
	}
	return err
}

func (a *app) newTokenList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the stored tokens",
		Long: `Lists the tokens that were made with "jetcrew token create" or over HTTP, those that have
ended too, for 30 days. Secrets are kept nowhere, and those that are in the file of
JETCREW_API_TOKENS_FILE are not listed. When a token was last used is known to a minute or two.`,
		Example: `  jetcrew token list
  jetcrew token list --json | jq -r '.tokens[] | select(.revokedAt == null) | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withAccess(cmd, func(ctx context.Context, c *client.Client, access *httpapi.Access) error {
				tokens, err := access.Tokens(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(httpapi.TokenList{Tokens: tokens})
				}
				a.showTokens(tokens, c.Now())
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) showTokens(tokens []httpapi.Token, now time.Time) {
	if len(tokens) == 0 {
		fmt.Fprintln(a.stderr, "no tokens are stored")
		return
	}
	t := a.table("NAME", "STATE", "SCOPES", "SPACES", "CREATED", "EXPIRES", "USED")
	for _, one := range tokens {
		state := "good"
		switch {
		case !one.RevokedAt.IsZero():
			state = "revoked"
		case !one.ExpiresAt.IsZero() && !now.Before(one.ExpiresAt):
			state = "expired"
		}
		used := "never"
		if !one.LastUsedAt.IsZero() {
			used = beat(now, one.LastUsedAt)
		}
		t.AppendRow(table.Row{safe(one.Name), state, shorten(joined(one.Scopes), 60), spacesOf(one), instant(one.CreatedAt), instant(one.ExpiresAt), used})
	}
	t.Render()
}

func joined(scopes []httpapi.Scope) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = safe(string(s))
	}
	return strings.Join(names, ",")
}

func spacesOf(t httpapi.Token) string {
	if len(t.Spaces) == 0 {
		return "all spaces"
	}
	return shorten(strings.Join(t.Spaces, ","), 60)
}

func (a *app) newTokenRevoke() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "End a token",
		Long: `Ends a token: each API refuses it within a second or two, and one that cannot reach NATS
within a minute. Revoking it again does no harm. When the last one is revoked, nobody calls any more.`,
		Example: `  jetcrew token revoke shop`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withAccess(cmd, func(ctx context.Context, _ *client.Client, access *httpapi.Access) error {
				t, err := access.RevokeToken(ctx, args[0])
				switch {
				case errors.Is(err, httpapi.ErrNoToken):
					return fmt.Errorf("%w token called %q", errNoKey, args[0])
				case err != nil:
					return err
				case asJSON:
					return a.printJSON(t)
				}
				_, err = fmt.Fprintf(a.stdout, "%s revoked\n", safe(t.Name))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
