package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/jetcrew/jetcrew/pkg/apiclient"
	"github.com/jetcrew/jetcrew/pkg/config"
)

// maxTokenFile bounds what is read of a file that holds a token.
const maxTokenFile = 4096

// The flags that say where NATS is, which the API's address takes the place of; and those that go with the latter.
const (
	natsFlags  = "url credentials context namespace"
	tokenFlags = "token token-file"
)

func addAPIFlags(f *pflag.FlagSet) {
	f.String("api", "", "address of \"jetcrew serve\" to ask instead of NATS, such as https://jobs.example.com (JETCREW_API_URL)")
	f.String("token-file", "", "with --api: file that holds the token (JETCREW_API_TOKEN_FILE)")
	f.String("token", "", "with --api: the token itself, which others on this machine may see there: rather use --token-file, or JETCREW_API_TOKEN")
}

// asksAPI reports whether a command asks the HTTP API. What the flags say beats what the environment does.
func asksAPI(cmd *cobra.Command, cfg *config.Config) (bool, error) {
	given := func(name string) bool {
		f := cmd.Flags().Lookup(name)
		return f != nil && f.Changed
	}
	if given("api") && cfg.APIURL == "" {
		return false, usagef("--api: must not be empty")
	}
	for name := range strings.FieldsSeq(natsFlags) {
		switch {
		case given(name) && given("api"):
			return false, usagef("--%s is about NATS, and --api asks HTTP instead: give one of them", name)
		case given(name):
			cfg.APIURL = ""
		}
	}
	for name := range strings.FieldsSeq(tokenFlags) {
		switch {
		case given(name) && cfg.APIURL == "":
			return false, usagef("--%s goes with --api, or with JETCREW_API_URL", name)
		case given(name) && strings.TrimSpace(cmd.Flags().Lookup(name).Value.String()) == "":
			return false, usagef("--%s: must not be empty", name)
		}
	}
	if given("token") && given("token-file") {
		return false, usagef("give --token or --token-file, not both")
	}
	return cfg.APIURL != "", nil
}

// needsNATS refuses a command that has to do with NATS itself where it was told to ask the HTTP API: what it did instead
// would be done elsewhere.
func needsNATS(cmd *cobra.Command, cfg *config.Config) error {
	over, err := asksAPI(cmd, cfg)
	if err != nil || !over {
		return err
	}
	what := "--api"
	if cfg.Source("JETCREW_API_URL") != config.FromFlag {
		what = "JETCREW_API_URL"
	}
	return usagef("%q does not work over HTTP, and %s is set: it needs NATS itself (--url)", cmd.CommandPath(), what)
}

// newAPIClient is the API that the settings name.
func (a *app) newAPIClient(cfg *config.Config) (*apiclient.Client, error) {
	token, err := apiTokenOf(cfg)
	if err != nil {
		return nil, err
	}
	secure, err := apiTLS(cfg)
	if err != nil {
		return nil, err
	}
	c, err := apiclient.New(apiclient.Config{URL: cfg.APIURL, Token: token, TLS: secure, Program: "jetcrew/" + programVersion()})
	if err != nil {
		return nil, usagef("--api: %w", err)
	}
	if token != "" && inTheClear(cfg.APIURL) {
		log := a.quietLogger(cfg)
		log.Warn().Msg("the token goes to another machine without TLS, where others may read it: use https")
	}
	return c, nil
}

// apiTokenOf is the token with which the API is asked. Of a flag and a variable, the flag counts.
func apiTokenOf(cfg *config.Config) (string, error) {
	byFlag := cfg.Source("JETCREW_API_TOKEN") == config.FromFlag
	fileByFlag := cfg.Source("JETCREW_API_TOKEN_FILE") == config.FromFlag
	switch {
	case cfg.APITokenFile == "", byFlag:
		return cfg.APIToken, nil
	case cfg.APIToken != "" && !fileByFlag:
		return "", usagef("JETCREW_API_TOKEN cannot be used together with JETCREW_API_TOKEN_FILE")
	}
	f, err := os.Open(cfg.APITokenFile)
	if err != nil {
		return "", usagef("--token-file: %w", err)
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, maxTokenFile)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", usagef("--token-file: %w", err)
	}
	if line = strings.TrimSpace(line); line == "" {
		return "", usagef("--token-file: %s holds no token in its first line", cfg.APITokenFile)
	}
	return line, nil
}

// apiTLS is how the API's certificate is checked, and what is shown to it: by the files that say so for NATS.
func apiTLS(cfg *config.Config) (*tls.Config, error) {
	if cfg.TLSCA == "" && cfg.TLSCert == "" {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.TLSCA != "" {
		pem, err := os.ReadFile(cfg.TLSCA)
		if err != nil {
			return nil, usagef("JETCREW_TLS_CA: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("JETCREW_TLS_CA: %s holds no certificate", cfg.TLSCA)
		}
	}
	if cfg.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
		if err != nil {
			return nil, usagef("JETCREW_TLS_CERT: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// inTheClear reports whether what is sent to an address crosses a network unencrypted.
func inTheClear(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "https" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return !strings.EqualFold(u.Hostname(), "localhost") && (ip == nil || !ip.IsLoopback())
}

// apiHelp is what the help says of asking over HTTP.
const apiHelp = `With --api (or JETCREW_API_URL) commands that look at jobs, queues, workers, schedules
and keys, or change them, ask "jetcrew serve" over HTTP instead of NATS: same output, same
exit codes. The token stands in the file of --token-file, or in JETCREW_API_TOKEN.`
