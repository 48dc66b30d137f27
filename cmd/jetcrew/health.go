package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) newHealth() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health [URL]",
		Short: "Ask a process that listens how it is",
		Long: `Asks a URL, by default http://` + defaultListen + `/healthz, and exits with 0 if it answers
with 200, with 1 otherwise. It is what a container without a shell checks itself with.`,
		Example: `  jetcrew health
  jetcrew health http://127.0.0.1:8081/readyz`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			target := "http://" + defaultListen + "/healthz"
			if len(args) > 0 {
				target = args[0]
			}
			if u, err := url.Parse(target); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return usagef("%q is no http:// or https:// URL", target)
			}
			if timeout <= 0 {
				return usagef("--timeout: must be more than 0s, not %s", timeout)
			}
			return askHealth(target, timeout)
		},
	}
	durationFlag(cmd.Flags(), &timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	return cmd
}

func askHealth(target string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	c := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", target, resp.Status)
	}
	return nil
}
