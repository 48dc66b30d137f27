package pinned

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/natsenv"
)

// The first names a nats-server program to try, in place of the server that is built into the tests; the second what
// either must say that its version is. `make test-minors` sets them.
const (
	serverEnv  = "JETCREW_TEST_SERVER"
	versionEnv = "JETCREW_TEST_SERVER_VERSION"
)

// given is the server that is to be tried.
type given struct {
	program string // "" for the one that is built in
	version string // what every server must say of itself
}

func givenServer(getenv func(string) string) (given, error) {
	g := given{program: getenv(serverEnv), version: strings.TrimPrefix(getenv(versionEnv), "v")}
	if g.program == "" && g.version == "" {
		return given{version: server.VERSION}, nil
	}
	if !natsenv.NewEnough(g.version) {
		return given{}, fmt.Errorf("%s is %q: it must be the server's version, %s or later", versionEnv, g.version, natsenv.MinServer)
	}
	if g.program == "" {
		return g, nil
	}
	// A test runs in the directory of its package, so that a relative path is hardly what was meant.
	if !filepath.IsAbs(g.program) {
		return given{}, fmt.Errorf("%s is %q: it must be the absolute path of a nats-server program", serverEnv, g.program)
	}
	if info, err := os.Stat(g.program); err != nil {
		return given{}, fmt.Errorf("%s: %w", serverEnv, err)
	} else if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return given{}, fmt.Errorf("%s is %q: it must be a program that can be executed", serverEnv, g.program)
	}
	return g, nil
}

// start starts one server.
func (g given) start(t testing.TB) (url string) {
	t.Helper()
	if g.program == "" {
		return natstest.Embedded(t).URL()
	}
	return natstest.StartServer(t, natstest.ServerConfig{}).URL()
}

// requireVersion checks that the servers are the ones that are meant.
func (p *place) requireVersion(t *testing.T, version string) {
	t.Helper()
	for _, nc := range p.conns {
		require.Equal(t, version, nc.ConnectedServerVersion(), "the version of server %s", nc.ConnectedServerName())
	}
}

// isFirst214 says whether the servers are of the first release of the oldest minor, which checks less than later ones.
func (p *place) isFirst214() bool {
	v, _, _ := strings.Cut(p.conns[0].ConnectedServerVersion(), "-")
	return v == "2.14.0"
}

func init() {
	// What takes this process's place dies with the parent only if it is the main thread that hands over: no other has
	// that set.
	if os.Getenv(serverEnv) != "" {
		runtime.LockOSThread()
	}
}

// options has natstest start the given program wherever it starts a server process. The role and the variable are
// natstest's own: were they named otherwise, the server that is built in would start, and be found out by its version.
func (g given) options() []natstest.Option {
	if g.program == "" {
		return nil
	}
	return []natstest.Option{
		natstest.Role("nats-server", func() int {
			err := syscall.Exec(g.program, []string{g.program, "-c", os.Getenv("JETCREW_NATSTEST_CONFIG")}, os.Environ())
			fmt.Fprintf(os.Stderr, "pinned: %s: %v\n", g.program, err)
			return 2
		}),
		natstest.Role("owner", own),
	}
}

// own is a role that starts the given server and waits to be killed.
func own() int {
	fmt.Println(natstest.StartServer(&testing.B{}, natstest.ServerConfig{}).URL())
	select {}
}

func TestAGivenServerDiesWithItsTests(t *testing.T) {
	t.Parallel()
	if os.Getenv(serverEnv) == "" || runtime.GOOS != "linux" {
		t.Skip("needs a server that is given, and Linux")
	}
	owner := natstest.StartRole(t, "owner", "TMPDIR="+t.TempDir())
	addr := strings.TrimPrefix(<-owner.Lines(), "nats://")
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	owner.Kill()
	natstest.Eventually(t, soon, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return true
		}
		_ = conn.Close()
		return false
	}, "the server ends")
}

// TestServersAreOfTheVersionThatIsMeant is of use where other packages are tested with another server built in.
func TestServersAreOfTheVersionThatIsMeant(t *testing.T) {
	t.Parallel()
	g, err := givenServer(os.Getenv)
	require.NoError(t, err)
	p := &place{conns: []*nats.Conn{natstest.Connect(t, g.start(t))}}
	p.requireVersion(t, g.version)
}

func TestAServerIsGivenByPathAndVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "nats-server")
	require.NoError(t, os.WriteFile(program, nil, 0o700))
	text := filepath.Join(dir, "nats.conf")
	require.NoError(t, os.WriteFile(text, nil, 0o600))
	for name, c := range map[string]struct {
		path, version string
		want          given
		says          string
	}{
		"none":                  {want: given{"", server.VERSION}},
		"what is built in":      {version: "2.15.0", want: given{"", "2.15.0"}},
		"one":                   {path: program, version: "v2.15.0", want: given{program, "2.15.0"}},
		"a candidate":           {path: program, version: "2.15.0-RC.1", want: given{program, "2.15.0-RC.1"}},
		"built in, too old":     {version: "2.12.15", says: natsenv.MinServer + " or later"},
		"not a version":         {path: program, version: "latest", says: `"latest"`},
		"no version":            {path: program, says: versionEnv + ` is ""`},
		"too old":               {path: program, version: "2.12.15", says: natsenv.MinServer + " or later"},
		"a relative path":       {path: "bin/nats-server", version: "2.15.0", says: "absolute path"},
		"not there":             {path: program + "d", version: "2.15.0", says: "no such file"},
		"a directory":           {path: dir, version: "2.15.0", says: "can be executed"},
		"a file, not a program": {path: text, version: "2.15.0", says: "can be executed"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := givenServer(func(key string) string {
				return map[string]string{serverEnv: c.path, versionEnv: c.version}[key]
			})
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.want, got)
		})
	}
}
