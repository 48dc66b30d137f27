package otlp

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// VariableError says which variable is wrong, and what is allowed. It never shows the value: a URL may hold a password.
type VariableError struct {
	Variable string
	Reason   string
}

func (e *VariableError) Error() string { return fmt.Sprintf("%s: %s", e.Variable, e.Reason) }

// Asked reports whether the environment asks for spans to be sent: it names a collector.
func Asked(getenv func(string) string) bool { return endpoint(getenv) != "" }

// Forbidden reports whether the environment says that no spans are to be made, whoever asks for them.
func Forbidden(getenv func(string) string) bool {
	return strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none"
}

// endpoint is what is said of where the collector is.
func endpoint(getenv func(string) string) string {
	return getenv(first(getenv, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"))
}

// first is the first of some variables that is set, or the last one.
func first(getenv func(string) string, names ...string) string {
	for _, n := range names {
		if getenv(n) != "" {
			return n
		}
	}
	return names[len(names)-1]
}

// samplers are those that OTEL_TRACES_SAMPLER may name; true: with a ratio as OTEL_TRACES_SAMPLER_ARG.
var samplers = map[string]bool{
	"always_on": false, "always_off": false, "traceidratio": true,
	"parentbased_always_on": false, "parentbased_always_off": false, "parentbased_traceidratio": true,
}

// Check refuses, by a *VariableError, what the exporter would silently replace with a default.
func Check(getenv func(string) string) error {
	name := first(getenv, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	if v := getenv(name); v != "" {
		if u, err := url.Parse(v); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return &VariableError{name, "must be a URL such as " + DefaultEndpoint}
		}
	}
	name = first(getenv, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	if v := getenv(name); v != "" && v != "http/protobuf" {
		return &VariableError{name, "must be http/protobuf, which is all that is spoken here; collectors take it at port 4318"}
	}
	if v := getenv("OTEL_TRACES_EXPORTER"); v != "" && v != "otlp" && v != "none" {
		return &VariableError{"OTEL_TRACES_EXPORTER", "must be otlp or none"}
	}
	name = first(getenv, "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION")
	if v := getenv(name); v != "" && v != "gzip" && v != "none" {
		return &VariableError{name, "must be gzip or none"}
	}
	if err := checkSampler(getenv); err != nil {
		return err
	}
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
		"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
	} {
		if v := getenv(name); v != "" {
			if n, err := strconv.ParseUint(v, 10, 31); err != nil || n == 0 {
				return &VariableError{name, "must be a number of at least 1"}
			}
		}
	}
	return nil
}

func checkSampler(getenv func(string) string) error {
	sampler := getenv("OTEL_TRACES_SAMPLER")
	if sampler == "" {
		return nil
	}
	ratio, known := samplers[strings.ToLower(strings.TrimSpace(sampler))]
	if !known {
		names := make([]string, 0, len(samplers))
		for n := range samplers {
			names = append(names, n)
		}
		slices.Sort(names)
		return &VariableError{"OTEL_TRACES_SAMPLER", "must be one of " + strings.Join(names, ", ")}
	}
	if arg := getenv("OTEL_TRACES_SAMPLER_ARG"); ratio && arg != "" {
		if r, err := strconv.ParseFloat(arg, 64); err != nil || r < 0 || r > 1 || r != r {
			return &VariableError{"OTEL_TRACES_SAMPLER_ARG", "must be a number from 0 to 1"}
		}
	}
	return nil
}
