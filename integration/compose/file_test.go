package compose

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// root is the top of the repository.
const root = "../.."

// file is what the tests read of docker-compose.yml.
type file struct {
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
}

type service struct {
	Image       string               `yaml:"image"`
	Build       *build               `yaml:"build"`
	Command     []string             `yaml:"command"`
	Environment map[string]string    `yaml:"environment"`
	Ports       []string             `yaml:"ports"`
	Volumes     []string             `yaml:"volumes"`
	DependsOn   map[string]condition `yaml:"depends_on"`
	Healthcheck *healthcheck         `yaml:"healthcheck"`
	Restart     string               `yaml:"restart"`
	ReadOnly    bool                 `yaml:"read_only"`
	Grace       string               `yaml:"stop_grace_period"`
}

type build struct {
	Context string            `yaml:"context"`
	Args    map[string]string `yaml:"args"`
}

type condition struct {
	Condition string `yaml:"condition"`
}

type healthcheck struct {
	Test    []string `yaml:"test"`
	Disable bool     `yaml:"disable"`
}

func readFile(t *testing.T) file {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	require.NoError(t, err)
	var f file
	// A key beside "<<" stands above the one that is merged in; this decoder takes that for a duplicate.
	require.NoError(t, yaml.UnmarshalWithOptions(text, &f, yaml.AllowDuplicateMapKey()))
	require.NotEmpty(t, f.Services)
	return f
}

// ours answers the services that run the jetcrew binary.
func (f file) ours() map[string]service {
	out := make(map[string]service)
	for name, s := range f.Services {
		if s.Build != nil {
			out[name] = s
		}
	}
	return out
}

var reference = regexp.MustCompile(`\$\{([A-Z_]+)(:\?|:-)?([^}]*)\}`)

// environment is a service's environment as Compose would give it, with values from .env.
func (s service) environment(t *testing.T, dotEnv map[string]string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for name, value := range s.Environment {
		out[name] = reference.ReplaceAllStringFunc(value, func(ref string) string {
			m := reference.FindStringSubmatch(ref)
			v := dotEnv[m[1]]
			if v == "" && m[2] == ":-" {
				v = m[3]
			}
			require.NotEmpty(t, v, "%s needs %s, which .env does not have", name, m[1])
			return v
		})
		require.NotContains(t, out[name], "${", "a form of reference that this test does not know")
	}
	return out
}

// exampleVariables are the names in docs/nats/env.example.
func exampleVariables(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/nats/env.example"))
	require.NoError(t, err)
	var names []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		require.True(t, ok, line)
		require.Empty(t, value, "the example holds no secret")
		names = append(names, name)
	}
	return names
}
