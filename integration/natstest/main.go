// Package natstest gives tests real NATS servers and real processes: an
// embedded server in milliseconds, servers and clusters as processes of their
// own that can be killed, paused and restarted, further copies of the test
// binary in roles that a test defines, and connections with scripted faults.
//
// Nothing has to be built or installed: every process is the test binary
// itself, started once more with a role in its environment. So a test package
// that starts one has
//
//	func TestMain(m *testing.M) { natstest.Main(m) }
//
// Everything listens on loopback, is stopped when its test ends, and dies with
// the test process however that ends. Unix only.
package natstest

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

const (
	roleEnv    = "JETCREW_NATSTEST_ROLE"
	configEnv  = "JETCREW_NATSTEST_CONFIG"
	roleServer = "nats-server"
)

// Option adds to what Main does.
type Option func(*mainConfig)

type mainConfig struct {
	roles    map[string]func() int
	leaks    []goleak.Option
	parallel int
}

// Parallel has n tests run at a time unless the command line says otherwise. Tests that wait rather than work want more
// of them than there are processors.
func Parallel(n int) Option {
	return func(c *mainConfig) { c.parallel = n }
}

// Role makes run what the test binary does when StartRole starts it under this
// name; the process ends with the exit code that run returns.
func Role(name string, run func() int) Option {
	return func(c *mainConfig) { c.roles[name] = run }
}

// LeakOptions are passed to goleak, for a goroutine that is known to stay.
func LeakOptions(opts ...goleak.Option) Option {
	return func(c *mainConfig) { c.leaks = append(c.leaks, opts...) }
}

// Main runs a package's tests, then fails if a goroutine is left, and exits. In
// a process that this package started it plays the role instead.
func Main(m *testing.M, opts ...Option) {
	c := mainConfig{roles: map[string]func() int{roleServer: serve}}
	for _, opt := range opts {
		opt(&c)
	}
	if role, ok := os.LookupEnv(roleEnv); ok {
		os.Exit(c.play(role))
	}
	if err := c.setParallel(); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, c.leaks...)
}

func (c *mainConfig) setParallel() error {
	if c.parallel == 0 {
		return nil
	}
	flag.Parse()
	const name = "test.parallel"
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == name })
	if asked {
		return nil
	}
	return flag.Set(name, strconv.Itoa(c.parallel))
}

func (c *mainConfig) play(role string) int {
	run, ok := c.roles[role]
	if !ok {
		fmt.Fprintf(os.Stderr, "natstest: no role %q: TestMain has to pass natstest.Role to natstest.Main\n", role)
		return 2
	}
	// What this process starts in turn is not in the same role.
	if err := os.Unsetenv(roleEnv); err != nil {
		fmt.Fprintf(os.Stderr, "natstest: role %q: %v\n", role, err)
		return 2
	}
	go endWithParent()
	return run()
}

// endWithParent ends this process when the test process is gone: only that one
// holds the other end of standard input, and it never writes to it.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin) // any end of it means the same
	os.Exit(3)
}
