package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
	"github.com/jetcrew/jetcrew/worker/command"
	"github.com/jetcrew/jetcrew/worker/httpcall"
)

// maxHandlerFile bounds what is read of a file of handlers.
const maxHandlerFile = 1 << 20

// handlerFile is a YAML file of handlers, as it is written.
type handlerFile struct {
	Queues   map[string]*queueSlots `yaml:"queues"`
	Handlers []handlerEntry         `yaml:"handlers"`
}

// handlerEntry is one handler in a file. Which members belong to which kind is checked by check.
type handlerEntry struct {
	Type    string      `yaml:"type"`
	Timeout fileLength  `yaml:"timeout"`
	Retry   *retryEntry `yaml:"retry"`

	Exec      execEntry           `yaml:"exec"`
	Dir       string              `yaml:"dir"`
	Env       []string            `yaml:"env"`
	Set       map[string]fileText `yaml:"set"`
	MaxOutput fileSize            `yaml:"maxOutput"`

	HTTP         string       `yaml:"http"`
	Secret       *secretEntry `yaml:"secret"`
	Unsigned     bool         `yaml:"unsigned"`
	AllowPrivate bool         `yaml:"allowPrivate"`
	UseProxy     bool         `yaml:"useProxy"`

	node ast.Node
}

type retryEntry struct {
	Base fileLength `yaml:"base"`
	Max  fileLength `yaml:"max"`
}

// secretEntry says where a secret is. It is never written into the file itself.
type secretEntry struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`
}

// readHandlerFile reads a file of handlers. Its errors name the file and the line.
func readHandlerFile(path string) ([]handlerSpec, config.Queues, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, usagef("--handlers: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxHandlerFile+1))
	if err != nil {
		return nil, nil, usagef("--handlers: %w", err)
	}
	if len(text) > maxHandlerFile {
		return nil, nil, usagef("--handlers: %s has more than %d bytes", path, maxHandlerFile)
	}
	file, err := parseHandlerFile(text)
	if err != nil {
		return nil, nil, fileUsage(path, err)
	}
	base, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, nil, usagef("--handlers: %w", err)
	}
	var specs []handlerSpec
	var errs []error
	for _, e := range file.Handlers {
		spec, err := e.spec(base)
		if err != nil {
			errs = append(errs, fileUsage(path, err))
			continue
		}
		spec.from = fmt.Sprintf("%s:%d", path, lineOf(e.node))
		specs = append(specs, spec)
	}
	if len(errs) > 0 {
		return nil, nil, errors.Join(errs...)
	}
	return specs, file.queues(), nil
}

// parseHandlerFile decodes one YAML document, in which nothing may be unknown.
func parseHandlerFile(text []byte) (*handlerFile, error) {
	d := yaml.NewDecoder(strings.NewReader(string(text)), yaml.Strict())
	var file handlerFile
	if err := d.Decode(&file); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("is empty")
		}
		return nil, err
	}
	if err := d.Decode(new(handlerFile)); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one document")
	}
	if len(file.Handlers) == 0 {
		return nil, errors.New("names no handlers")
	}
	for _, name := range slices.Sorted(maps.Keys(file.Queues)) {
		if err := job.ValidateName("queues", name, job.MaxName); err != nil {
			return nil, err
		}
		if file.Queues[name] == nil {
			return nil, fmt.Errorf("queues: %q needs a number, of its jobs that run at a time", name)
		}
	}
	return &file, nil
}

func (f *handlerFile) queues() config.Queues {
	var out config.Queues
	for _, name := range slices.Sorted(maps.Keys(f.Queues)) {
		out = append(out, config.QueueSetting{Name: name, Concurrency: int(*f.Queues[name])})
	}
	return out
}

// spec is the handler that an entry describes. What is relative in it is relative to base.
func (e *handlerEntry) spec(base string) (handlerSpec, error) {
	if err := e.check(); err != nil {
		return handlerSpec{}, lineError{lineOf(e.node), err.Error()}
	}
	spec := handlerSpec{typ: e.Type, timeout: time.Duration(e.Timeout)}
	if e.Retry != nil {
		spec.retry = worker.RetryPolicy{Base: time.Duration(e.Retry.Base), Max: time.Duration(e.Retry.Max)}
	}
	if e.HTTP != "" {
		secret, err := e.Secret.read(base)
		if err != nil {
			return handlerSpec{}, lineError{lineOf(e.node), fmt.Sprintf("handler %q: %s", e.Type, err)}
		}
		spec.http = &httpcall.Config{
			URL: e.HTTP, Secret: secret, Unsigned: e.Unsigned, AllowPrivate: e.AllowPrivate, UseProxy: e.UseProxy,
		}
		return spec, nil
	}
	set := make(map[string]string, len(e.Set))
	for k, v := range e.Set {
		set[k] = string(v)
	}
	spec.exec = &command.Config{
		Args: e.Exec, Dir: under(base, e.Dir), Pass: e.Env, Set: set, MaxOutput: int(e.MaxOutput),
	}
	return spec, nil
}

func (e *handlerEntry) check() error {
	if err := job.ValidateName("type", e.Type, job.MaxName); err != nil {
		return err
	}
	var wrong []string
	switch {
	case e.HTTP == "" && len(e.Exec) == 0:
		return fmt.Errorf("handler %q: needs exec or http", e.Type)
	case e.HTTP != "" && len(e.Exec) > 0:
		return fmt.Errorf("handler %q: has both exec and http", e.Type)
	case e.HTTP != "":
		wrong = given(map[string]bool{"dir": e.Dir != "", "env": e.Env != nil, "set": e.Set != nil, "maxOutput": e.MaxOutput != 0})
	default:
		wrong = given(map[string]bool{
			"secret": e.Secret != nil, "unsigned": e.Unsigned, "allowPrivate": e.AllowPrivate, "useProxy": e.UseProxy,
		})
	}
	if len(wrong) > 0 {
		return fmt.Errorf("handler %q: %s does not go with it", e.Type, strings.Join(wrong, ", "))
	}
	if r := e.Retry; r != nil && r.Max > 0 && r.Base > r.Max {
		return fmt.Errorf("handler %q: retry.base must not exceed retry.max", e.Type)
	}
	return nil
}

// given are the names of what is given, sorted.
func given(members map[string]bool) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if members[name] {
			out = append(out, name)
		}
	}
	return out
}

// read is the secret itself; none if there is no entry.
func (s *secretEntry) read(base string) (string, error) {
	switch {
	case s == nil:
		return "", nil
	case s.Env != "":
		return secretFromEnv(s.Env)
	}
	path := under(base, s.File)
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("secret: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return "", fmt.Errorf("secret: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("secret: %s is empty", path)
	}
	return secret, nil
}

func under(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// lineError is a mistake on a line of a file.
type lineError struct {
	line int
	text string
}

func (e lineError) Error() string { return e.text }

func mistake(n ast.Node, format string, args ...any) error {
	return lineError{lineOf(n), fmt.Sprintf(format, args...)}
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return lineOf(m.Values[0].Key) // the mapping's own token is that of its first colon
	}
	return n.GetToken().Position.Line
}

// fileUsage is a mistake in a file: file:line: what. The library would quote the lines around it, which may hold
// what nobody should see.
func fileUsage(path string, err error) error {
	var at lineError
	var ye yaml.Error
	switch {
	case errors.As(err, &at):
		return usagef("%s:%d: %s", path, at.line, at.text)
	case errors.As(err, &ye) && ye.GetToken() != nil && ye.GetToken().Position != nil:
		return usagef("%s:%d: %s", path, ye.GetToken().Position.Line, ye.GetMessage())
	}
	return usagef("%s: %s", path, err)
}

// UnmarshalYAML reads the entry and remembers where it stands.
func (e *handlerEntry) UnmarshalYAML(n ast.Node) error {
	type plain handlerEntry
	if n.Type() != ast.MappingType && n.Type() != ast.MappingValueType {
		return mistake(n, "a handler is a mapping with a type, and exec or http")
	}
	if err := yaml.NodeToValue(n, (*plain)(e), yaml.Strict()); err != nil {
		return err
	}
	e.node = n
	return nil
}

// UnmarshalYAML takes references only.
func (s *secretEntry) UnmarshalYAML(n ast.Node) error {
	const how = "a secret is given as {env: NAME} or {file: PATH}"
	type plain secretEntry
	if n.Type() != ast.MappingType && n.Type() != ast.MappingValueType {
		return mistake(n, "%s, and never written here", how)
	}
	if err := yaml.NodeToValue(n, (*plain)(s), yaml.Strict()); err != nil {
		return err
	}
	if (s.Env == "") == (s.File == "") {
		return mistake(n, "%s", how)
	}
	return nil
}
