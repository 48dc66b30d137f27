package bench

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// TestBench prints ratios and asserts none. It is short unless JETCREW_BENCH asks for more.
func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	cfg := Config{Jobs: 500, Rounds: 1}
	if os.Getenv("JETCREW_BENCH") != "" {
		cfg = Config{Jobs: 20_000, Rounds: 5}
	}
	if n, err := strconv.Atoi(os.Getenv("JETCREW_BENCH_ROUNDS")); err == nil {
		cfg.Rounds = n
	}
	if name := os.Getenv("JETCREW_BENCH_CASE"); name != "" {
		cfg.Cases = []string{name}
	}
	cfg.Fresh = func() (*nats.Conn, func(), error) {
		srv := natstest.StartServer(t, natstest.ServerConfig{})
		nc, err := nats.Connect(srv.URL())
		return nc, func() { nc.Close(); srv.Kill() }, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	rep, err := Run(ctx, nil, cfg)
	require.NoError(t, err)
	rep.Print(os.Stdout)
	for _, f := range rep.Figures {
		require.Positive(t, f.Ratio, f.Name)
	}
}

func TestASharedServerIsLeftClean(t *testing.T) {
	srv := natstest.Embedded(t)
	nc := natstest.Connect(t, srv.URL())
	rep, err := Run(t.Context(), nc, Config{Jobs: 100, Rounds: 1})
	require.NoError(t, err)
	require.Len(t, rep.Figures, 8)
	var out bytes.Buffer
	rep.Print(&out)
	require.Contains(t, out.String(), "drain, 100 slots")
	msg, err := nc.Request("$JS.API.STREAM.NAMES", nil, 5*time.Second)
	require.NoError(t, err)
	require.NotContains(t, string(msg.Data), "BENCH")
}

func TestBadConfigIsRefused(t *testing.T) {
	for _, cfg := range []Config{{Jobs: 1}, {Jobs: -5}, {Rounds: -1}, {Rounds: 1000}, {Cases: []string{"nonsense"}}} {
		_, err := Run(t.Context(), nil, cfg)
		require.ErrorContains(t, err, "bench: ")
	}
}

func TestQuantile(t *testing.T) {
	v := []float64{5, 1, 4, 2, 3}
	require.InDelta(t, 3, quantile(v, 0.5), 0)
	require.InDelta(t, 5, quantile(v, 0.99), 0)
	require.InDelta(t, 1, quantile(v[1:2], 0.5), 0)
}
