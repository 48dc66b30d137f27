package metrics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	descStored = describe("account_storage_bytes", "What the account stores in files, by the tier of its limits; the same from every process.", "tier")
	descRoom   = describe("account_storage_limit_bytes", "What the account may store in files, by the tier; left out where it has no limit.", "tier")
)

// room collects what the account stores and may store. Ends of jobs are writes too, so that a full store is one where
// nothing ends.
type room struct {
	nc  *nats.Conn
	log func(error)

	mu     sync.Mutex // held while one asks for all
	at     time.Time
	answer []prometheus.Metric
}

func (r *room) Describe(to chan<- *prometheus.Desc) {
	to <- descStored
	to <- descRoom
}

func (r *room) Collect(to chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) >= depthFor {
		var err error
		if r.answer, err = r.read(); err != nil {
			r.log(err)
		}
		r.at = time.Now()
	}
	for _, m := range r.answer {
		to <- m
	}
}

func (r *room) read() ([]prometheus.Metric, error) {
	if !r.nc.IsConnected() {
		return nil, nats.ErrDisconnected
	}
	js, err := jetstream.New(r.nc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout/4)
	defer cancel()
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
