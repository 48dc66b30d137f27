package chaos

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	mapFile = "../../docs/faults.md"
	// without stands where a row names no test; then it says why.
	without  = "–"
	untested = "not tested: "
)

// row is one fault of the map.
type row struct {
	name, done, holds string
	by                string // the tests, or without
}

var (
	testLink = regexp.MustCompile(`\[([^\]]*)\]\((\.\./[^)]*_test\.go)\)`)
	rowName  = regexp.MustCompile("^`([a-z0-9-]+)`$")
)

// Every fault of the map is held by tests that are there, or says why it has none; and every test of the suite is on the
// map.
func TestMapOfFaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(mapFile)
	require.NoError(t, err)
	rows := rowsOf(t, string(text))
	require.Greater(t, len(rows), 50)
	named := make(map[string][]string) // by file
	seen := make(map[string]bool)
	for _, r := range rows {
		require.False(t, seen[r.name], "%s stands twice", r.name)
		seen[r.name] = true
		tests := testLink.FindAllStringSubmatch(r.holds+r.by, -1)
		if r.by == without {
			require.True(t, strings.HasPrefix(r.holds, untested), "%s names no test: %s has to say why, after %q", r.name, r.holds, untested)
			require.Greater(t, len(r.holds), len(untested)+40, "%s: that is no reason", r.name)
		} else {
			rest := strings.Trim(testLink.ReplaceAllString(r.by, ""), " ,")
			require.Empty(t, rest, "%s is held by what is no link to a test", r.name)
			require.NotEmpty(t, tests, "%s is held by no test", r.name)
		}
		for _, m := range tests {
			file := filepath.Join(filepath.Dir(mapFile), m[2])
			require.Contains(t, testsIn(t, file), m[1], "%s: %s is not in %s", r.name, m[1], m[2])
			named[file] = append(named[file], m[1])
		}
	}
	for _, dir := range []string{".", "../faketime"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			path := filepath.Join(filepath.Dir(mapFile), "../integration", filepath.Base(abs(t, dir)), filepath.Base(f))
			for _, name := range testsIn(t, f) {
				if slices.Contains([]string{"TestMain", "TestScene", "TestMapOfFaults"}, name) {
					continue // they hold nothing by themselves
				}
				require.Contains(t, named[path], name, "no fault in docs/faults.md names this test of %s", f)
			}
		}
	}
}

// rowsOf are the rows of all tables.
func rowsOf(t *testing.T, text string) []row {
	t.Helper()
	var out []row
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| Fault |") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		require.Len(t, cells, 4, "%s", line)
		for i, c := range cells {
			cells[i] = strings.TrimSpace(c)
			require.NotEmpty(t, cells[i], "%s", line)
		}
		name := rowName.FindStringSubmatch(cells[0])
		require.NotNil(t, name, "a fault's name has small letters, digits and - in backquotes: %s", cells[0])
		out = append(out, row{name[1], cells[1], cells[2], cells[3]})
	}
	return out
}

// testsIn are the tests of a file, whatever it is built for.
func testsIn(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var out []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
			out = append(out, fn.Name.Name)
		}
	}
	return out
}

func abs(t *testing.T, dir string) string {
	t.Helper()
	path, err := filepath.Abs(dir)
	require.NoError(t, err)
	return path
}
