package config

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// Setting is one variable as it is in effect, fit to be shown.
type Setting struct {
	Variable    string `json:"variable"`
	Value       string `json:"value"`
	Source      Source `json:"source"`
	Description string `json:"description"`
}

// Secret stands for a value that is set and must not be shown.
const Secret = "(set)"

// Settings lists every variable with its effective value, without secrets.
func (c *Config) Settings() []Setting {
	v := reflect.ValueOf(c).Elem()
	out := make([]Setting, 0, len(fields))
	for _, f := range fields {
		out = append(out, Setting{
			Variable:    f.variable,
			Value:       f.text(v.Field(f.index).Interface()),
			Source:      c.Source(f.variable),
			Description: f.desc,
		})
	}
	return out
}

// RedactURL is a server's URL without the name, password or token in it.
func RedactURL(s string) string {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		scheme, rest = "", s
	}
	u, err := url.Parse("nats://" + rest)
	if err != nil {
		// What cannot be parsed is cut at its last @, wherever that stands.
		rest = rest[strings.LastIndexByte(rest, '@')+1:]
	} else {
		rest = u.Host
	}
	if found {
		return scheme + "://" + rest
	}
	return rest
}

// redactAddress is an http address without the name, the password or the query in it.
func redactAddress(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return Secret
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// field describes one setting, from the tags of Config.
type field struct {
	index                               int
	name, variable, allowed, desc, show string
}

// The settings in the order of Config, and by their names; read only.
var (
	fields     = readFields()
	byVariable = index(func(f field) string { return f.variable })
	byField    = index(func(f field) string { return f.name })
)

func index(name func(field) string) map[string]field {
	m := make(map[string]field, len(fields))
	for _, f := range fields {
		m[name(f)] = f
	}
	return m
}

func readFields() []field {
	var out []field
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		f := t.Field(i)
		if v := f.Tag.Get("env"); v != "" && v != "-" {
			out = append(out, field{i, f.Name, v, f.Tag.Get("allowed"), f.Tag.Get("desc"), f.Tag.Get("show")})
		}
	}
	return out
}

func (f field) text(value any) string {
	var s string
	switch v := value.(type) {
	case []string:
		parts := make([]string, len(v))
		for i, u := range v {
			parts[i] = RedactURL(u)
		}
		s = strings.Join(parts, ",")
	case time.Duration:
		s = FormatDuration(v)
	default:
		s = fmt.Sprint(v)
	}
	switch {
	case f.show == "secret" && s != "":
		return Secret
	case f.show == "address":
		return redactAddress(s)
	}
	return s
}
