package metrics

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/streams"
)

// A server that does not answer is one that a scrape tells of. The scrape itself is answered, and so is every other.
func TestASilentServerIsMeasured(t *testing.T) {
	t.Parallel()
	p := natstest.StartServer(t, natstest.ServerConfig{})
	nc := natstest.Connect(t, p.URL(), nats.PingInterval(time.Hour)) // it takes the connection for one that stands
	store, err := streams.Open(t.Context(), nc, streams.Config{})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	m := New("v1", "work", zerolog.Nop())
	m.Store(store)
	m.Conn(nc)
	healthy := func() error {
		text := scrape(t, m)
		for _, want := range []string{"jetcrew_store_up 1\n", "jetcrew_nats_rtt_seconds ", "jetcrew_jobs{", "jetcrew_account_storage_bytes{"} {
			if !strings.Contains(text, want) {
				return errors.New("no " + want + " in:\n" + text)
			}
		}
		return nil
	}
	natstest.Eventually(t, time.Minute, healthy)
	p.Pause()
	natstest.Eventually(t, time.Minute, func() error { // what was answered before is good for a while
		text := scrape(t, m)
		if !strings.Contains(text, "jetcrew_store_up 0\n") || !strings.Contains(text, "jetcrew_nats_connected 1\n") {
			return errors.New(text)
		}
		for _, old := range []string{"jetcrew_nats_rtt_seconds ", "jetcrew_jobs{", "jetcrew_account_storage_bytes{"} {
			if strings.Contains(text, old) {
				return errors.New(old + " in:\n" + text)
			}
		}
		return nil
	})
	p.Resume()
	natstest.Eventually(t, time.Minute, healthy)
}

// Whoever does not even come back from a question holds up no scrape, and is asked nothing more until he does.
func TestAQuestionThatHangsHoldsUpNoScrape(t *testing.T) {
	t.Parallel()
	m := New("v1", "work", zerolog.Nop())
	figure := func(v float64) []prometheus.Metric {
		return []prometheus.Metric{prometheus.MustNewConstMetric(descRTT, prometheus.GaugeValue, v)}
	}
	hang, questions := make(chan struct{}), make(chan struct{}, 100)
	m.registry.MustRegister(&asked{
		descs: []*prometheus.Desc{descRTT}, silent: figure(-1), log: m.complain,
		ask: func(context.Context) ([]prometheus.Metric, error) {
			questions <- struct{}{}
			<-hang
			return figure(7), nil
		},
	})
	var scrapes sync.WaitGroup
	for range 3 {
		scrapes.Go(func() {
			if text := scrape(t, m); !strings.Contains(text, "jetcrew_nats_rtt_seconds -1\n") {
				t.Error(text)
			}
		})
	}
	scrapes.Wait()
	require.Len(t, questions, 1)
	close(hang)
	natstest.Eventually(t, time.Minute, func() bool { return strings.Contains(scrape(t, m), "jetcrew_nats_rtt_seconds 7\n") })
}
