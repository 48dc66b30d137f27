package main

import (
	"encoding/json"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

func (a *app) newConfig() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in effect, and where each comes from",
		Long: `Shows every setting: its variable, its value, whether it comes from the default,
the environment or a flag, and what it is for. Passwords, tokens and the user
part of URLs are never shown.`,
		Example: `  jetcrew config
  JETCREW_LEASE=1m jetcrew config --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.anySettings(cmd)
			if err != nil {
				return err
			}
			settings := cfg.Settings()
			if asJSON {
				e := json.NewEncoder(a.stdout)
				e.SetIndent("", "  ")
				return e.Encode(settings)
			}
			t := a.table("VARIABLE", "VALUE", "FROM", "WHAT IT IS")
			for _, s := range settings {
				t.AppendRow(table.Row{s.Variable, safe(s.Value), s.Source, s.Description})
			}
			t.Render()
			return nil
		},
	}
	addWorkerFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// table is a plain table on stdout.
func (a *app) table(header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(a.stdout)
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	if len(header) > 0 {
		t.AppendHeader(header)
	}
	return t
}
