package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jetcrew/jetcrew/pkg/natsenv"
	"github.com/jetcrew/jetcrew/pkg/redact"
)

// maxVarz bounds what is read of a server's answer.
const maxVarz = 4 << 20

// monitor is what a server says of itself on its monitoring port.
type monitor struct {
	root      string // its URL
	local     bool   // on this machine's loopback address
	Name      string `json:"server_name"`
	Version   string `json:"version"`
	JetStream struct {
		Config *jetStreamConfig `json:"config"`
		Stats  *struct {
			Store uint64 `json:"storage"`
		} `json:"stats"`
	} `json:"jetstream"`
}

// jetStreamConfig is how a server's store is set.
type jetStreamConfig struct {
	MaxStore     int64         `json:"max_storage"`
	StoreDir     string        `json:"store_dir"`
	SyncInterval time.Duration `json:"sync_interval"`
	SyncAlways   bool          `json:"sync_always"`
}

// lookAtMonitors asks the servers whose monitoring was named.
func (e *exam) lookAtMonitors(ctx context.Context) error {
	for _, root := range e.cfg.Monitors {
		m, err := askMonitor(ctx, root)
		if err != nil {
			e.unchecked(redact.Text(err.Error()), "see that this is the root of a server's monitoring (http: in its configuration), such as http://127.0.0.1:8222", nil)
			continue
		}
		facts := map[string]any{"node": m.Name, "version": m.Version}
		switch {
		case !natsenv.NewEnough(m.Version):
			e.fail(fmt.Sprintf("node %s runs nats-server %s, jetcrew needs %s or later", m.Name, m.Version, natsenv.MinServer), "upgrade it", facts)
		case m.JetStream.Config == nil:
			e.warn("node "+m.Name+" has no JetStream", "name the monitoring of those that have", facts)
		default:
			e.ok("node "+m.Name+" tells how it is", facts)
			e.monitors = append(e.monitors, *m)
		}
	}
	return nil
}

func askMonitor(ctx context.Context, root string) (*monitor, error) {
	m := &monitor{root: root}
	if err := askMonitoring(ctx, root, "/varz", "", maxVarz, m); err != nil {
		return nil, err
	}
	u, err := url.Parse(root)
	if err != nil {
		return nil, errURL
	}
	if m.Version == "" {
		return nil, fmt.Errorf("monitoring: %s answers without a server's version", u.Host)
	}
	m.local = loopback(u.Hostname())
	return m, nil
}

// errURL leaves out the URL: it may hold a password.
var errURL = errors.New("monitoring: its URL cannot be read")

// askMonitoring reads one page of a server's monitoring into answer.
func askMonitoring(ctx context.Context, root, page, query string, most int64, answer any) error {
	u, err := url.Parse(root)
	if err != nil {
		return errURL
	}
	u.Path, u.RawQuery, u.Fragment = strings.TrimSuffix(u.Path, "/")+page, query, ""
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("monitoring: %w", err)
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSHandshakeTimeout: dialTimeout}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("monitoring: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("monitoring: %s answers %s", u.Host, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, most)).Decode(answer); err != nil {
		return fmt.Errorf("monitoring: %s answers what is none: %w", u.Host, err)
	}
	return nil
}

// loopback reports whether a host is this machine, by its name alone.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
