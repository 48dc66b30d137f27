package compose

import (
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
)

const (
	roleNode  = "node"
	configEnv = "JETCREW_COMPOSE_CONFIG"

	// patience is how long anything may take that has to happen.
	patience = 90 * time.Second
)

func TestMain(m *testing.M) { natstest.Main(m, natstest.Role(roleNode, runNode)) }

// runNode is a process's part as a nats-server, with the configuration file that the environment names.
func runNode() int {
	opts, err := server.ProcessConfigFile(os.Getenv(configEnv))
	if err == nil {
		var srv *server.Server
		if srv, err = server.NewServer(opts); err == nil {
			srv.ConfigureLogger()
			if err = server.Run(srv); err == nil {
				srv.WaitForShutdown()
				return 0
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 2
}

// secrets are a .env as docs/deploy.md makes one.
type secrets struct {
	dotEnv map[string]string
	token  string // that the API takes
	narrow string // the same, for the space acme only
}

func newSecrets(t *testing.T) secrets {
	t.Helper()
	s := secrets{dotEnv: make(map[string]string), token: strings.ToLower(rand.Text()), narrow: strings.ToLower(rand.Text())}
	for _, name := range exampleVariables(t) {
		s.dotEnv[name] = "p" + strings.ToLower(rand.Text())
	}
	all, err := httpapi.HashToken("all", s.token, nil)
	require.NoError(t, err)
	acme, err := httpapi.HashToken("acme", s.narrow, []string{"acme"})
	require.NoError(t, err)
	s.dotEnv["JETCREW_API_TOKENS"] = all + ";" + acme
	return s
}

// cluster is the NATS services of docker-compose.yml as processes.
type cluster struct {
	t       *testing.T
	secrets secrets
	nodes   map[string]*node
}

type node struct {
	*natstest.Proc
	env    []string
	port   int
	health string // what its health check asks
}

// startCluster starts the nodes, with the ports and directories of the containers moved to free ones here.
func startCluster(t *testing.T, f file) *cluster {
	t.Helper()
	c := &cluster{t: t, secrets: newSecrets(t), nodes: make(map[string]*node)}
	var moves []string
	ports := make(map[string][3]int)
	for name, s := range f.Services {
		if s.Environment["NATS_NAME"] == "" {
			continue
		}
		ports[name] = [3]int{reservePort(t), reservePort(t), reservePort(t)}
		moves = append(moves, name+":6222", local(ports[name][1]))
	}
	require.Len(t, ports, 3)
	moved := strings.NewReplacer(moves...)
	for name, p := range ports {
		s := f.Services[name]
		env := s.environment(t, c.secrets.dotEnv)
		env["NATS_LISTEN"], env["NATS_CLUSTER_LISTEN"], env["NATS_MONITOR"] = local(p[0]), local(p[1]), local(p[2])
		env["NATS_ROUTES"] = moved.Replace(env["NATS_ROUTES"])
		env["NATS_STORE_DIR"] = t.TempDir()
		config, err := filepath.Abs(filepath.Join(root, "docs/nats", filepath.Base(s.Command[len(s.Command)-1])))
		require.NoError(t, err)
		env[configEnv] = config
		ask := s.Healthcheck.Test[len(s.Healthcheck.Test)-1]
		require.Contains(t, ask, "127.0.0.1:8222")
		n := &node{port: p[0], health: strings.ReplaceAll(ask, "127.0.0.1:8222", local(p[2]))}
		for k, v := range env {
			n.env = append(n.env, k+"="+v)
		}
		c.nodes[name] = n
		n.start(t)
	}
	for name := range c.nodes {
		c.waitHealthy(name)
	}
	return c
}

func (n *node) start(t *testing.T) { n.Proc = natstest.StartRole(t, roleNode, n.env...) }

// waitHealthy waits until a node's health check succeeds.
func (c *cluster) waitHealthy(name string) {
	c.t.Helper()
	n := c.nodes[name]
	natstest.Eventually(c.t, patience, func() error {
		select {
		case <-n.Done():
			return fmt.Errorf("it has ended")
		default:
		}
		status, body, err := get(n.health, "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d: %s", status, body)
		}
		return err
	}, "node", name)
}

// urls is where the nodes listen.
func (c *cluster) urls() string {
	var urls []string
	for _, n := range c.nodes {
		urls = append(urls, "nats://"+local(n.port))
	}
	return strings.Join(urls, ",")
}

// password of a user of accounts.conf.
func (c *cluster) password(user string) string {
	if user == "sys" {
		return c.secrets.dotEnv["NATS_SYS_PASSWORD"]
	}
	return c.secrets.dotEnv["JETCREW_"+strings.ToUpper(user)+"_PASSWORD"]
}

// connect connects as a user of accounts.conf.
func (c *cluster) connect(user string) *nats.Conn {
	c.t.Helper()
	opts := []nats.Option{nats.UserInfo(user, c.password(user))}
	if user != "admin" && user != "sys" {
		opts = append(opts, nats.CustomInboxPrefix("_INBOX_"+user))
	}
	return natstest.Connect(c.t, c.urls(), opts...)
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// reservePort finds a free loopback port below those of outgoing connections, and keeps it for the test by a UDP
// socket of the same number, as natstest does.
func reservePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 15000 + mathrand.IntN(15000)
		udp, err := net.ListenPacket("udp4", local(port))
		if err != nil {
			continue
		}
		tcp, err := net.Listen("tcp4", local(port))
		if err != nil {
			_ = udp.Close()
			continue
		}
		require.NoError(t, tcp.Close())
		t.Cleanup(func() { _ = udp.Close() })
		return port
	}
	t.Fatal("no free port")
	return 0
}

// get asks a URL, with a bearer token if there is one.
func get(url, token string) (int, string, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	return do(req, token)
}

func do(req *http.Request, token string) (int, string, error) {
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}
