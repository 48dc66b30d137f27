package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

const (
	// maxScheduleFile bounds what is read of a file of schedules.
	maxScheduleFile = 1 << 20
	// maxFaultsShown is how many mistakes are named; past them, the file is of another kind.
	maxFaultsShown = 100
	// maxNesting is how deeply a file may be nested: what parses YAML takes very long over nonsense that is deep.
	maxNesting = 200
)

// scheduleFile is what a YAML file declares.
type scheduleFile struct {
	owner   string
	spaces  []string // in which it declares something, or says that it has nothing
	entries []scheduleEntry
}

// scheduleEntry is one schedule, and where it stands.
type scheduleEntry struct {
	line int
	spec scheduler.Spec
}

// openScheduleFile reads a file of schedules. All that is wrong with it is named on stderr, each with its line.
func (a *app) openScheduleFile(name string) (*scheduleFile, error) {
	from := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError{fmt.Errorf("--file: %w", err)}
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxScheduleFile+1))
	switch {
	case err != nil:
		return nil, usageError{fmt.Errorf("--file: %w", err)}
	case len(text) > maxScheduleFile:
		return nil, usagef("--file: %s has more than %d bytes", name, maxScheduleFile)
	}
	file, faults := parseScheduleFile(text)
	for i, fault := range faults {
		if i == maxFaultsShown {
			fmt.Fprintf(a.stderr, "%s: and %d more\n", safe(name), len(faults)-i)
			break
		}
		fmt.Fprintf(a.stderr, "%s:%d: %s\n", safe(name), fault.line, oneLine(fault))
	}
	if n := len(faults); n == 1 {
		return nil, usagef("there is a mistake in %s: nothing was changed", name)
	} else if n > 1 {
		return nil, usagef("there are %d mistakes in %s: nothing was changed", n, name)
	}
	return file, nil
}

// parseScheduleFile reads one YAML document, in which nothing may be unknown, and checks all of it. Faults are in the
// order of their lines.
func parseScheduleFile(text []byte) (*scheduleFile, []lineError) {
	var y yamlReader
	if line, deep := nestedTooDeeply(text); deep {
		return nil, []lineError{{line, fmt.Sprintf("is nested more than %d deep", maxNesting)}}
	}
	doc, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey()) // which the reader names
	if err != nil {
		return nil, []lineError{syntaxFault(text, err)}
	}
	var bodies []ast.Node
	for _, d := range doc.Docs {
		if d.Body != nil {
			bodies = append(bodies, d.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return nil, []lineError{{1, "is empty"}}
	case 1:
	default:
		return nil, []lineError{{lineOf(bodies[1]), "begins another document: a file holds one"}}
	}
	file := y.scheduleFile(bodies[0])
	slices.SortStableFunc(y.faults, func(a, b lineError) int { return a.line - b.line })
	return file, y.faults
}

// syntaxFault is why a file is no YAML.
func syntaxFault(text []byte, err error) lineError {
	at := lineError{1, err.Error()}
	var ye yaml.Error
	if errors.As(err, &ye) && ye.GetToken() != nil && ye.GetToken().Position != nil {
		at = lineError{ye.GetToken().Position.Line, ye.GetMessage()}
	}
	lines := bytes.Split(text, []byte("\n"))
	if at.line <= len(lines) {
		_, value, _ := bytes.Cut(lines[at.line-1], []byte("cron:"))
		if value = bytes.TrimSpace(value); len(value) > 0 && (value[0] == '*' || value[0] == '@') {
			at.text += ": an expression that begins with * or @ has to stand in quotes"
		}
	}
	return at
}

// nestedTooDeeply counts brackets that are open, and dashes on a line, whatever they stand in: no file for people comes
// near the limit.
func nestedTooDeeply(text []byte) (line int, deep bool) {
	line = 1
	open, dashes := 0, 0
	for i, c := range text {
		switch c {
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		case '-', '?', ':':
			if i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\t') {
				dashes++
			}
		case '\n':
			line++
			dashes = 0
		}
		if open > maxNesting || dashes > 20*maxNesting {
			return line, true
		}
	}
	return 0, false
}

// scheduleFile reads the whole of a file.
func (y *yamlReader) scheduleFile(n ast.Node) *scheduleFile {
	f := &scheduleFile{}
	space, spaceLine := "", 0
	var list ast.Node
	if !y.members(n, "a file of schedules", map[string]func(ast.Node){
		"owner": func(n ast.Node) {
			y.text("owner", n, &f.owner)
			if err := checkOwner(f.owner); err != nil {
				y.wrong(n, "%s", err)
			}
		},
		"space": func(n ast.Node) {
			if spaceLine = lineOf(n); y.text("space", n, &space) {
				if err := job.ValidateName("space", space, job.MaxName); err != nil {
					y.wrong(n, "%s", err)
				}
			}
		},
		"schedules": func(n ast.Node) { list = n },
	}) {
		return nil
	}
	entries, ok := list.(*ast.SequenceNode)
	switch {
	case list == nil:
		y.wrong(n, "names no schedules: a list of them stands under schedules")
		return nil
	case !ok:
		y.wrong(list, "schedules: a list is expected")
		return nil
	case len(entries.Values) == 0 && spaceLine == 0:
		y.wrong(list, "schedules: is empty; if that is meant, space has to say where")
	}
	first := make(map[string]int)
	for _, v := range entries.Values {
		e, ok := y.scheduleEntry(v, space)
		if !ok {
			continue
		}
		id := e.spec.Space + "\x00" + e.spec.Name
		if line, twice := first[id]; twice {
			y.faults = append(y.faults, lineError{e.line, fmt.Sprintf("name: %q stands in the space %s already, on line %d", e.spec.Name, e.spec.Space, line)})
		} else {
			first[id] = e.line
		}
		f.entries = append(f.entries, e)
		f.addSpace(e.spec.Space)
	}
	if spaceLine != 0 {
		f.addSpace(space)
	}
	slices.Sort(f.spaces)
	return f
}

func (f *scheduleFile) addSpace(space string) {
	if !slices.Contains(f.spaces, space) {
		f.spaces = append(f.spaces, space)
	}
}

// scheduleEntry reads one schedule. It is answered if its name and space can be told, whatever else is wrong with it.
func (y *yamlReader) scheduleEntry(n ast.Node, space string) (scheduleEntry, bool) {
	e := scheduleEntry{line: lineOf(n), spec: scheduler.Spec{Space: space}}
	s := &e.spec
	at := make(map[string]int) // the lines of the members
	bad := make(map[string]bool)
	missed, overlap := "", ""
	members := map[string]func(ast.Node) bool{
		"name":         func(n ast.Node) bool { return y.text("name", n, &s.Name) },
		"space":        func(n ast.Node) bool { return y.filled("space", n, &s.Space) },
		"type":         func(n ast.Node) bool { return y.text("type", n, &s.Type) },
		"queue":        func(n ast.Node) bool { return y.filled("queue", n, &s.Queue) },
		"cron":         func(n ast.Node) bool { return y.text("cron", n, &s.Cron) },
		"timezone":     func(n ast.Node) bool { return y.text("timezone", n, &s.Timezone) },
		"environment":  func(n ast.Node) bool { return y.filled("environment", n, &s.Environment) },
		"input":        func(n ast.Node) bool { return y.object("input", n, &s.Input) },
		"maxAttempts":  func(n ast.Node) bool { return y.count("maxAttempts", n, job.MaxMaxAttempts, &s.MaxAttempts) },
		"timeout":      func(n ast.Node) bool { return y.duration("timeout", n, &s.Timeout) },
		"jitter":       func(n ast.Node) bool { return y.duration("jitter", n, &s.Jitter) },
		"enabled":      func(n ast.Node) bool { return y.flag("enabled", n, &s.Enabled) },
		"missedPolicy": func(n ast.Node) bool { return y.filled("missedPolicy", n, &missed) },
		"missedLimit":  func(n ast.Node) bool { return y.count("missedLimit", n, scheduler.MaxMissedLimit, &s.MissedLimit) },
		"overlap":      func(n ast.Node) bool { return y.filled("overlap", n, &overlap) },
	}
	readers := make(map[string]func(ast.Node), len(members))
	for name, read := range members {
		readers[name] = func(n ast.Node) {
			at[name] = lineOf(n)
			bad[name] = !read(n)
		}
	}
	if !y.members(n, "a schedule", readers) {
		return e, false
	}
	s.MissedPolicy, s.Overlap = scheduler.MissedPolicy(missed), scheduler.Overlap(overlap)
	for name := range bad {
		if bad[name] {
			soundField(s, name)
		}
	}
	known := !bad["name"] && !bad["space"]
	for {
		var fault *job.FieldError
		switch err := s.Normalize(); {
		case err == nil:
			return e, known
		case errors.As(err, &fault):
			line := e.line
			if at[fault.Field] != 0 {
				line = at[fault.Field]
			}
			y.faults = append(y.faults, lineError{line, strings.TrimSpace(fault.Error())})
			if fault.Field == "name" || fault.Field == "space" {
				known = false
			}
			if soundField(s, fault.Field) {
				continue
			}
		default:
			y.faults = append(y.faults, lineError{e.line, err.Error()})
		}
		return e, known
	}
}

// soundField gives a field that is wrong a value that is not, so that what else is wrong comes to light. It reports
// whether it knows the field.
func soundField(s *scheduler.Spec, field string) bool {
	switch field {
	case "name":
		s.Name = "-"
	case "space":
		s.Space = ""
	case "type":
		s.Type = "-"
	case "queue":
		s.Queue = ""
	case "cron":
		s.Cron = "@daily"
	case "timezone":
		s.Timezone = ""
	case "environment":
		s.Environment = ""
	case "input":
		s.Input = nil
	case "maxAttempts":
		s.MaxAttempts = 0
	case "timeout":
		s.Timeout = 0
	case "jitter":
		s.Jitter = 0
	case "missedPolicy":
		s.MissedPolicy, s.MissedLimit = "", 0
	case "missedLimit":
		s.MissedLimit = 0
	case "overlap":
		s.Overlap = ""
	case "enabled":
		s.Enabled = nil
	default:
		return false
	}
	return true
}
