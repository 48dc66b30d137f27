package metrics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	descConnected  = describe("nats_connected", "1 while the connection to NATS stands, or else 0.")
	descReconnects = describe("nats_reconnects_total", "How often the connection to NATS was made anew.")
	descRTT        = describe("nats_rtt_seconds", "A round trip to the server, measured by the scrape; left out where the server does not answer.")
	descStored     = describe("account_storage_bytes", "What the account stores in files, by the tier of its limits; the same from every process.", "tier")
	descRoom       = describe("account_storage_limit_bytes", "What the account may store in files, by the tier; left out where it has no limit.", "tier")
)

const (
	// rttFor is how long a round trip may take.
	rttFor = time.Second
	// rttGoodFor keeps those apart that scrape at the same time.
	rttGoodFor = time.Second
)

// Conn shows how a connection is, and how much of its account's storage is used.
func (m *Metrics) Conn(nc *nats.Conn) {
	c := conn{nc}
	m.registry.MustRegister(
		&asked{descs: []*prometheus.Desc{descConnected, descReconnects}, ask: c.state, log: m.complain},
		&asked{descs: []*prometheus.Desc{descRTT}, good: rttGoodFor, ask: c.rtt, log: m.complain},
		&asked{descs: []*prometheus.Desc{descStored, descRoom}, good: goodFor, ask: c.room, log: m.complain},
	)
}

// conn asks a connection.
type conn struct{ nc *nats.Conn }

func (c conn) state(context.Context) ([]prometheus.Metric, error) {
	connected := 0.0
	if c.nc.IsConnected() {
		connected = 1
	}
	return []prometheus.Metric{
		prometheus.MustNewConstMetric(descConnected, prometheus.GaugeValue, connected),
		prometheus.MustNewConstMetric(descReconnects, prometheus.CounterValue, float64(c.nc.Stats().Reconnects)),
	}, nil
}

func (c conn) rtt(context.Context) ([]prometheus.Metric, error) {
	if !c.nc.IsConnected() {
		return nil, nats.ErrDisconnected
	}
	began := time.Now()
	if err := c.nc.FlushTimeout(rttFor); err != nil {
		return nil, fmt.Errorf("round trip: %w", err)
	}
	return []prometheus.Metric{prometheus.MustNewConstMetric(descRTT, prometheus.GaugeValue, time.Since(began).Seconds())}, nil
}

// room asks what the account stores and may store. Ends of jobs are writes too, so that a full store is one where nothing
// ends.
func (c conn) room(ctx context.Context) ([]prometheus.Metric, error) {
	if !c.nc.IsConnected() {
		return nil, nats.ErrDisconnected
	}
	js, err := jetstream.New(c.nc)
	if err != nil {
		return nil, err
	}
	account, err := js.AccountInfo(ctx)
	if err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
	tiers := map[string]jetstream.Tier{"": account.Tier}
	if len(account.Tiers) > 0 { // the account has limits for each number of replicas instead
		tiers = account.Tiers
	}
	var out []prometheus.Metric
	for _, name := range slices.Sorted(maps.Keys(tiers)) {
		t := tiers[name]
		out = append(out, prometheus.MustNewConstMetric(descStored, prometheus.GaugeValue, float64(t.Store), name))
		if t.Limits.MaxStore > 0 {
			out = append(out, prometheus.MustNewConstMetric(descRoom, prometheus.GaugeValue, float64(t.Limits.MaxStore), name))
		}
	}
	return out, nil
}
