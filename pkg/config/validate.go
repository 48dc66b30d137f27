package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/natsenv"
)

var inboxPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// validate checks every setting that could be parsed.
func (c *Config) validate(parsed []error) []error {
	v := validation{bad: make(map[string]bool)}
	for _, err := range parsed {
		var e *Error
		if errors.As(err, &e) {
			v.bad[e.Variable] = true
		}
	}
	for i, u := range c.URL {
		c.URL[i] = strings.TrimSpace(u)
		v.check("JETCREW_URL", "", validURL(c.URL[i]))
	}
	v.check("JETCREW_INBOX_PREFIX", c.InboxPrefix, c.InboxPrefix == "" || inboxPattern.MatchString(c.InboxPrefix))
	v.check("JETCREW_NAMESPACE", c.Namespace, natsenv.ValidNamespace(c.Namespace))
	v.check("JETCREW_REPLICAS", fmt.Sprint(c.Replicas), c.Replicas >= 1 && c.Replicas <= 5)
	v.check("JETCREW_MANAGE", c.Manage, c.Manage == "create" || c.Manage == "verify")
	v.check("JETCREW_CONCURRENCY", fmt.Sprint(c.Concurrency), c.Concurrency >= 0 && c.Concurrency <= MaxConcurrency)
	v.check("JETCREW_API_MAX_READY", fmt.Sprint(c.APIMaxReady), c.APIMaxReady >= 0)
	v.check("JETCREW_MAX_STUCK", fmt.Sprint(c.MaxStuck), c.MaxStuck >= 1 && c.MaxStuck <= 10_000)
	v.check("JETCREW_LOG_LEVEL", c.LogLevel, slices.Contains([]string{"trace", "debug", "info", "warn", "error"}, c.LogLevel))
	v.check("JETCREW_LOG_FORMAT", c.LogFormat, slices.Contains([]string{"auto", "console", "json"}, c.LogFormat))
	v.check("JETCREW_TRACING", c.Tracing, slices.Contains([]string{"auto", "on", "off"}, c.Tracing))
	for _, d := range []struct {
		variable string
		value    time.Duration
		least    time.Duration
	}{
		{"JETCREW_LEASE", c.Lease, time.Second},
		{"JETCREW_TIMEOUT", c.Timeout, 0},
		{"JETCREW_GRACE", c.Grace, time.Second},
		{"JETCREW_DRAIN_TIMEOUT", c.DrainTimeout, 0},
		{"JETCREW_RETRY_BASE", c.RetryBase, time.Millisecond},
	} {
		v.check(d.variable, d.value.String(), d.value >= d.least)
	}
	if !v.bad["JETCREW_RETRY_BASE"] {
		v.check("JETCREW_RETRY_MAX", c.RetryMax.String(), c.RetryMax >= c.RetryBase)
	}
	for _, q := range c.Queues {
		if err := job.ValidateName("queue", q.Name, job.MaxName); err != nil {
			v.check("JETCREW_QUEUES", c.Queues.String(), false)
		}
	}
	for _, f := range []struct{ variable, path string }{
		{"JETCREW_CREDENTIALS", c.Credentials},
		{"JETCREW_NKEY", c.NKey},
		{"JETCREW_TLS_CA", c.TLSCA},
		{"JETCREW_TLS_CERT", c.TLSCert},
		{"JETCREW_TLS_KEY", c.TLSKey},
		{"JETCREW_API_TOKENS_FILE", c.APITokensFile},
		{"JETCREW_API_TOKEN_FILE", c.APITokenFile},
	} {
		v.check(f.variable, f.path, f.path == "" || readable(f.path))
	}
	c.validateIdentity(&v)
	return v.errs
}

// validateIdentity checks what excludes or needs each other.
func (c *Config) validateIdentity(v *validation) {
	var kinds []string
	for _, k := range []struct{ variable, value string }{
		{"JETCREW_CREDENTIALS", c.Credentials},
		{"JETCREW_NKEY", c.NKey},
		{"JETCREW_USER", c.User},
		{"JETCREW_TOKEN", c.Token},
	} {
		if k.value != "" {
			kinds = append(kinds, k.variable)
		}
	}
	if len(kinds) > 1 {
		v.add(kinds[0], "cannot be used together with "+strings.Join(kinds[1:], ", ")+": name one identity")
	}
	if c.Password != "" && c.User == "" {
		v.add("JETCREW_PASSWORD", "needs JETCREW_USER")
	}
	if c.APITokens != "" && c.APITokensFile != "" {
		v.add("JETCREW_API_TOKENS", "cannot be used together with JETCREW_API_TOKENS_FILE")
	}
	if c.TLSCert != "" && c.TLSKey == "" {
		v.add("JETCREW_TLS_CERT", "needs JETCREW_TLS_KEY")
	}
	if c.TLSKey != "" && c.TLSCert == "" {
		v.add("JETCREW_TLS_KEY", "needs JETCREW_TLS_CERT")
	}
	if c.Context == "" {
		return
	}
	if c.Source("JETCREW_URL") != FromDefault {
		v.add("JETCREW_CONTEXT", "cannot be used together with JETCREW_URL: a context has its own URL")
	}
	others := slices.Clone(kinds)
	for _, o := range []struct{ variable, value string }{
		{"JETCREW_TLS_CA", c.TLSCA}, {"JETCREW_TLS_CERT", c.TLSCert},
	} {
		if o.value != "" {
			others = append(others, o.variable)
		}
	}
	if len(others) > 0 {
		v.add("JETCREW_CONTEXT", "cannot be used together with "+strings.Join(others, ", ")+": a context has its own")
	}
}

// validation gathers errors, at most one for a value.
type validation struct {
	bad  map[string]bool
	errs []error
}

func (v *validation) check(variable, value string, ok bool) {
	if ok || v.bad[variable] {
		return
	}
	v.bad[variable] = true
	v.errs = append(v.errs, byVariable[variable].refuse(value))
}

func (v *validation) add(variable, reason string) {
	v.errs = append(v.errs, &Error{Variable: variable, Reason: reason})
}

// validURL takes what the NATS client takes, which includes a bare host.
func validURL(s string) bool {
	if !strings.Contains(s, "://") {
		s = "nats://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" {
		return false
	}
	return slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme)
}

func readable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	return err == nil && !info.IsDir()
}
