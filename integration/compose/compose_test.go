package compose

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

func TestTheServicesAreThere(t *testing.T) {
	f := readFile(t)
	for _, name := range []string{"nats-1", "nats-2", "nats-3", "setup", "worker", "scheduler", "api"} {
		require.Contains(t, f.Services, name)
	}
	for name, s := range f.Services {
		require.NotEmpty(t, s.Restart, "%s: what is to be done when it ends", name)
		require.NotNil(t, s.Healthcheck, "%s: how it is", name)
		require.NotEmpty(t, s.Image, name)
		for on := range s.DependsOn {
			require.Contains(t, f.Services, on, "%s depends on it", name)
		}
	}
	for _, node := range []string{"nats-1", "nats-2", "nats-3"} {
		require.Equal(t, "service_healthy", f.Services["setup"].DependsOn[node].Condition)
		require.Equal(t, node, f.Services[node].Environment["NATS_NAME"])
		require.Regexp(t, `^nats:2\.1[4-9]`, f.Services[node].Image, "jetcrew needs 2.14")
	}
	for _, name := range []string{"worker", "scheduler", "api"} {
		require.Equal(t, "service_completed_successfully", f.Services[name].DependsOn["setup"].Condition)
		require.Equal(t, "verify", f.Services[name].Environment["JETCREW_MANAGE"])
		require.True(t, f.Services[name].ReadOnly, name)
	}
	require.Equal(t, "create", f.Services["setup"].Environment["JETCREW_MANAGE"])
	require.Equal(t, "on-failure", f.Services["setup"].Restart, "it ends")
	require.Equal(t, "3", f.Services["setup"].Environment["JETCREW_REPLICAS"])
}

func TestNothingIsPublishedBeyondThisMachine(t *testing.T) {
	for name, s := range readFile(t).Services {
		for _, p := range s.Ports {
			parts := strings.Split(p, ":")
			require.Len(t, parts, 3, "%s: %q has no address to publish on", name, p)
			ip := net.ParseIP(parts[0])
			require.True(t, ip != nil && ip.IsLoopback(), "%s: %q", name, p)
			require.NotEqual(t, "8222", parts[2], "%s publishes the monitoring port", name)
			require.NotEqual(t, "6222", parts[2], "%s publishes the port of the routes", name)
		}
	}
}

func TestWhatIsMountedExists(t *testing.T) {
	f := readFile(t)
	for name, s := range f.Services {
		for _, v := range s.Volumes {
			from, to, ok := strings.Cut(v, ":")
			require.True(t, ok, "%s: %q", name, v)
			if !strings.HasPrefix(from, ".") {
				require.Contains(t, f.Volumes, from, "%s: volume of %q", name, v)
				continue
			}
			info, err := os.Stat(filepath.Join(root, from))
			require.NoError(t, err, name)
			require.True(t, strings.HasSuffix(to, ":ro"), "%s: %q can be written", name, v)
			if config := s.Command[len(s.Command)-1]; info.IsDir() {
				dir := strings.TrimSuffix(to, ":ro")
				require.FileExists(t, filepath.Join(root, from, strings.TrimPrefix(config, dir+"/")), name)
			}
		}
	}
}

func TestTheSecretsComeFromTheEnvironment(t *testing.T) {
	example := exampleVariables(t)
	used := make(map[string]bool)
	for name, s := range readFile(t).Services {
		for variable, value := range s.Environment {
			for _, m := range reference.FindAllStringSubmatch(value, -1) {
				require.Contains(t, example, m[1], "%s: %s", name, variable)
				used[m[1]] = true
			}
			if strings.HasSuffix(variable, "_PASSWORD") || strings.HasSuffix(variable, "_TOKENS") {
				require.Regexp(t, `^\$\{[A-Z_]+:\?\}$`, value, "%s: %s", name, variable)
			}
		}
	}
	for _, name := range example {
		require.True(t, used[name], "%s of the example is used nowhere", name)
	}
	for _, conf := range []string{"node.conf", "accounts.conf"} {
		text, err := os.ReadFile(filepath.Join(root, "docs/nats", conf))
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^[^#\n]*password:\s*(\S+)`).FindAllStringSubmatch(string(text), -1) {
			require.Regexp(t, `^\$[A-Z_]+$`, m[1], conf)
		}
	}
}

func TestTheConfigurationNeedsEveryVariable(t *testing.T) {
	f := readFile(t)
	env := f.Services["nats-1"].environment(t, newSecrets(t).dotEnv)
	path, err := filepath.Abs(filepath.Join(root, "docs/nats/node.conf"))
	require.NoError(t, err)
	for name, value := range env {
		t.Setenv(name, value)
	}
	opts, err := server.ProcessConfigFile(path)
	require.NoError(t, err)
	require.Equal(t, "SYS", opts.SystemAccount)
	require.Empty(t, opts.NoAuthUser)
	require.Equal(t, "127.0.0.1", opts.HTTPHost, "monitoring")
	require.Len(t, opts.Routes, 3)
	require.EqualValues(t, 8<<30, opts.JetStreamMaxStore)
	for name := range env {
		value := os.Getenv(name)
		require.NoError(t, os.Unsetenv(name))
		_, err := server.ProcessConfigFile(path)
		require.ErrorContains(t, err, name)
		require.NoError(t, os.Setenv(name, value))
	}
}

func TestTheCommandsExist(t *testing.T) {
	bin := buildBinary(t)
	f := readFile(t)
	help := func(args []string) {
		t.Helper()
		out, err := exec.Command(bin, append(args, "--help")...).CombinedOutput()
		require.NoError(t, err, "%q: %s", args, out)
		require.Contains(t, string(out), "Usage:", "%q", args)
		require.Contains(t, string(out), "jetcrew "+args[0], "%q is help for something else", args)
	}
	for name, s := range f.ours() {
		require.NotEmpty(t, s.Command, name)
		help(s.Command)
		if s.Healthcheck != nil && !s.Healthcheck.Disable {
			require.Equal(t, []string{"CMD", "/jetcrew"}, s.Healthcheck.Test[:2], name)
			help(s.Healthcheck.Test[2:])
		}
	}
	for _, args := range dockerfile(t).commands {
		if !slices.Equal(args, []string{"help"}) {
			help(args)
		}
	}
}

func TestTheImage(t *testing.T) {
	d := dockerfile(t)
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(module))
	require.NotEmpty(t, m)
	require.Contains(t, d.text, "FROM golang:"+m[1]+"-", "the toolchain is that of go.mod")
	require.Regexp(t, `(?m)^USER [1-9]\d*:[1-9]\d*$`, d.text, "not root, by number")
	require.Contains(t, d.text, "CGO_ENABLED=0")
	require.Contains(t, d.text, "ARG VERSION")
	require.Regexp(t, `(?m)^HEALTHCHECK .*CMD \["/jetcrew", "health"\]$`, d.text)
	ignored, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	require.NoError(t, err)
	require.Contains(t, strings.Split(string(ignored), "\n"), ".env")

	out, err := exec.Command(buildBinary(t, "-ldflags", "-X main.version=9.9.9"), "version").CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "jetcrew 9.9.9")
}

// image is what the tests read of the Dockerfile.
type image struct {
	text     string
	commands [][]string // of the binary
}

func dockerfile(t *testing.T) image {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	d := image{text: string(text)}
	for _, m := range regexp.MustCompile(`(?m)CMD \[(.+)\]$`).FindAllStringSubmatch(d.text, -1) {
		var args []string
		for a := range strings.SplitSeq(m[1], ",") {
			args = append(args, strings.Trim(a, ` "`))
		}
		if args[0] == "/jetcrew" {
			args = args[1:]
		}
		d.commands = append(d.commands, args)
	}
	require.NotEmpty(t, d.commands)
	return d
}

func TestComposeItselfAcceptsTheFile(t *testing.T) {
	docker, err := exec.LookPath("docker")
	if err != nil {
		t.Skip("there is no docker client here")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, docker, "compose", "version").CombinedOutput(); err != nil {
		t.Skipf("the docker client here has no compose plugin: %s", strings.TrimSpace(string(out)))
	}
	cmd := exec.CommandContext(ctx, docker, "compose", "--file", filepath.Join(root, "docker-compose.yml"), "config", "--quiet")
	cmd.Env = os.Environ()
	for name, value := range newSecrets(t).dotEnv {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))

	// Without its secrets nothing may start.
	bare := exec.CommandContext(ctx, docker, cmd.Args[1:]...)
	bare.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	bare.Args = append(bare.Args[:2:2], append([]string{"--env-file", os.DevNull}, bare.Args[2:]...)...)
	var exit *exec.ExitError
	require.True(t, errors.As(bare.Run(), &exit))
}
