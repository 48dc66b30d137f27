// Package config reads jetcrew's settings: JETCREW_* from the environment, and what flags put above them,
// into one struct with defaults, validated once.
//
// Every error names the variable (or the flag) and what is allowed, and all errors are reported together.
// A variable that is set to nothing counts as not set. A JETCREW_* variable that does not exist is a
// warning, since a misspelt setting is otherwise silently ignored. Secrets never appear in an error, a
// warning or a Setting.
package config

import (
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/caarlos0/env/v11"
)

// DefaultURL is where a NATS server is looked for when nothing else is said.
const DefaultURL = "nats://127.0.0.1:4222"

// Config is every setting. The tags say, for each: its variable, its default, what is allowed, what it is
// for, and whether its value must never be shown (secret) or holds URLs that may have a password in them (url).
type Config struct {
	URL         []string `env:"JETCREW_URL" envDefault:"nats://127.0.0.1:4222" show:"url" allowed:"one or more of nats://, tls://, ws:// or wss://host[:port], separated by commas" desc:"NATS servers to connect to"`
	Credentials string   `env:"JETCREW_CREDENTIALS" allowed:"a file that can be read" desc:"NATS credentials file (.creds)"`
	NKey        string   `env:"JETCREW_NKEY" allowed:"a file that can be read" desc:"file with an nkey seed"`
	User        string   `env:"JETCREW_USER" desc:"user name"`
	Password    string   `env:"JETCREW_PASSWORD" show:"secret" desc:"password of the user"`
	Token       string   `env:"JETCREW_TOKEN" show:"secret" desc:"authentication token"`
	TLSCA       string   `env:"JETCREW_TLS_CA" allowed:"a file that can be read" desc:"certificate authorities to trust (PEM)"`
	TLSCert     string   `env:"JETCREW_TLS_CERT" allowed:"a file that can be read" desc:"client certificate (PEM)"`
	TLSKey      string   `env:"JETCREW_TLS_KEY" allowed:"a file that can be read" desc:"key of the client certificate (PEM)"`
	Context     string   `env:"JETCREW_CONTEXT" desc:"NATS context to connect with, instead of a URL"`
	InboxPrefix string   `env:"JETCREW_INBOX_PREFIX" allowed:"subject tokens of letters, digits, _ and -, separated by dots" desc:"prefix of the subjects that replies come to"`

	Namespace          string    `env:"JETCREW_NAMESPACE" envDefault:"jetcrew" allowed:"a lower-case letter, then up to 31 of a-z, 0-9, _ and -" desc:"prefix of all subjects and streams"`
	Replicas           int       `env:"JETCREW_REPLICAS" envDefault:"1" allowed:"a number from 1 to 5" desc:"copies of the stream and buckets when they are made"`
	Manage             string    `env:"JETCREW_MANAGE" envDefault:"create" allowed:"create or verify" desc:"whether streams and consumers are made, or only checked"`
	RetentionSucceeded Retention `env:"JETCREW_RETENTION_SUCCEEDED" envDefault:"24h" allowed:"a duration of 10m to 3650d, such as 24h or 7d, or none" desc:"how long records of succeeded jobs are kept; none: not at all"`
	RetentionCancelled Retention `env:"JETCREW_RETENTION_CANCELLED" envDefault:"24h" allowed:"a duration of 10m to 3650d, such as 24h or 7d, or none" desc:"how long records of cancelled jobs are kept; none: not at all"`
	RetentionDead      Retention `env:"JETCREW_RETENTION_DEAD" envDefault:"168h" allowed:"a duration of 10m to 3650d, such as 24h or 7d, or none" desc:"how long records of dead jobs are kept; none: not at all"`
	RetentionFailed    Retention `env:"JETCREW_RETENTION_FAILED" envDefault:"168h" allowed:"a duration of 10m to 3650d, such as 24h or 7d, or none" desc:"how long records of failed jobs are kept; none: not at all"`

	Queues       Queues        `env:"JETCREW_QUEUES" envDefault:"default" allowed:"names, each with how many jobs at a time (0 to 5000), such as default=4,mail=10" desc:"queues that a worker takes jobs from"`
	Concurrency  int           `env:"JETCREW_CONCURRENCY" envDefault:"4" allowed:"a number from 0 to 5000" desc:"jobs at a time in a queue that has no number of its own"`
	Lease        time.Duration `env:"JETCREW_LEASE" envDefault:"30s" allowed:"a duration of at least 1s, such as 30s" desc:"lease of queues that are new"`
	Timeout      time.Duration `env:"JETCREW_TIMEOUT" envDefault:"0s" allowed:"a duration, such as 5m, or 0s for none" desc:"how long one attempt may take"`
	Grace        time.Duration `env:"JETCREW_GRACE" envDefault:"30s" allowed:"a duration of at least 1s, such as 30s" desc:"how long past its timeout a handler may go on before it counts as stuck"`
	MaxStuck     int           `env:"JETCREW_MAX_STUCK" envDefault:"10" allowed:"a number from 1 to 10000" desc:"stuck handlers at which a worker ends"`
	DrainTimeout time.Duration `env:"JETCREW_DRAIN_TIMEOUT" envDefault:"0s" allowed:"a duration, such as 1m, or 0s for none" desc:"how long a stopping worker waits for its handlers"`
	RetryBase    time.Duration `env:"JETCREW_RETRY_BASE" envDefault:"30s" allowed:"a duration of at least 1ms, such as 30s" desc:"wait before the first retry; it doubles per attempt"`
	RetryMax     time.Duration `env:"JETCREW_RETRY_MAX" envDefault:"15m" allowed:"a duration not under JETCREW_RETRY_BASE, such as 15m" desc:"longest wait before a retry"`

	APITokensFile string `env:"JETCREW_API_TOKENS_FILE" allowed:"a file that can be read" desc:"file of the tokens that may call the HTTP API"`
	APITokens     string `env:"JETCREW_API_TOKENS" show:"secret" desc:"the same tokens, separated by semicolons, instead of a file"`
	APIRateToken  Rate   `env:"JETCREW_API_RATE_TOKEN" envDefault:"none" allowed:"a count and a period of 1s to 1d, such as 100/1s or 10000/1h, or none" desc:"requests that one token may make of the HTTP API, in the whole fleet"`
	APIRateSpace  Rate   `env:"JETCREW_API_RATE_SPACE" envDefault:"none" allowed:"a count and a period of 1s to 1d, such as 100/1s or 10000/1h, or none" desc:"requests over HTTP that may concern one space, in the whole fleet"`
	APIMaxReady   int    `env:"JETCREW_API_MAX_READY" envDefault:"0" allowed:"a number of 0 or more; 0 for no limit" desc:"ready jobs of a queue past which the HTTP API takes no more for it"`

	APIURL       string `env:"JETCREW_API_URL" show:"address" desc:"address of \"jetcrew serve\", which commands ask instead of NATS"`
	APITokenFile string `env:"JETCREW_API_TOKEN_FILE" allowed:"a file that can be read" desc:"file of the token with which commands ask the HTTP API"`
	APIToken     string `env:"JETCREW_API_TOKEN" show:"secret" desc:"the token itself, instead of a file"`

	LogLevel  string `env:"JETCREW_LOG_LEVEL" envDefault:"info" allowed:"trace, debug, info, warn or error" desc:"least level that is logged"`
	LogFormat string `env:"JETCREW_LOG_FORMAT" envDefault:"auto" allowed:"auto, console or json" desc:"auto is console on a terminal, json elsewhere"`

	Tracing string `env:"JETCREW_TRACING" envDefault:"auto" allowed:"auto, on or off" desc:"whether spans are sent; auto is on where OTEL_EXPORTER_OTLP_ENDPOINT is set"`

	// Warnings about the environment, for a person to read.
	Warnings []string `env:"-"`

	sources map[string]Source
}

// Source says where a value comes from.
type Source string

// The sources, the later beating the earlier.
const (
	FromDefault     Source = "default"
	FromEnvironment Source = "environment"
	FromFlag        Source = "flag"
)

// Flag is a value given on the command line for a variable. It beats the environment.
type Flag struct {
	Name  string // as typed, such as --url
	Value string
}

// parsers read what the library would read in its own way.
var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[time.Duration](): func(v string) (any, error) { return ParseDuration(v) },
}

// Load reads the settings from environ (as os.Environ gives it) and from flags, keyed by variable. The
// error joins everything that is wrong; each part is an *Error.
func Load(environ []string, flags map[string]Flag) (*Config, error) {
	c := &Config{sources: make(map[string]Source)}
	values := c.collect(environ, flags)
	var errs []error
	if err := env.ParseWithOptions(c, env.Options{Environment: values, FuncMap: parsers}); err != nil {
		errs = parseErrors(err, values)
	}
	errs = append(errs, c.validate(errs)...)
	for i, err := range errs {
		var e *Error
		if errors.As(err, &e) {
			if f, ok := flags[e.Variable]; ok {
				e.Flag = f.Name
			}
		}
		errs[i] = err
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	c.complete()
	return c, nil
}

// Source says where the value of a variable came from.
func (c *Config) Source(variable string) Source {
	if s, ok := c.sources[variable]; ok {
		return s
	}
	return FromDefault
}

// collect merges environment and flags, and notes who said what.
func (c *Config) collect(environ []string, flags map[string]Flag) map[string]string {
	values := make(map[string]string)
	for name, value := range env.ToMap(environ) {
		if value == "" {
			continue
		}
		if _, known := byVariable[name]; known {
			values[name], c.sources[name] = value, FromEnvironment
		} else if w := unknownVariable(name); w != "" {
			c.Warnings = append(c.Warnings, w)
		}
	}
	for name, f := range flags {
		values[name], c.sources[name] = f.Value, FromFlag
	}
	// A URL and a context exclude each other; one from a flag silences the other from the environment.
	for _, pair := range [][2]string{{"JETCREW_URL", "JETCREW_CONTEXT"}, {"JETCREW_CONTEXT", "JETCREW_URL"}} {
		if c.sources[pair[0]] == FromFlag && c.sources[pair[1]] == FromEnvironment {
			delete(values, pair[1])
			delete(c.sources, pair[1])
		}
	}
	slices.Sort(c.Warnings)
	return values
}

// complete fills in what depends on several settings.
func (c *Config) complete() {
	if c.Context != "" {
		c.URL = nil
	}
	for i, q := range c.Queues {
		if q.Concurrency < 0 {
			c.Queues[i].Concurrency = c.Concurrency
		}
	}
}
