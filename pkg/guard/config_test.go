package guard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestAConfigThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	store := kv.NewMemory(kv.MemoryOptions{})
	for field, cfg := range map[string]guard.Config{
		"Store":         {},
		"Timeout":       {Store: store, Timeout: time.Millisecond},
		"ReplayWindow":  {Store: store, ReplayWindow: -1},
		"Calls":         {Store: store, Calls: -1},
		"CallsPerSpace": {Store: store, CallsPerSpace: -1},
		"Renders":       {Store: store, Renders: -1},
		"Poll":          {Store: store, Poll: time.Hour},
	} {
		_, err := guard.New(cfg)
		var wrong *job.FieldError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, field, wrong.Field)
	}
	g, err := guard.New(guard.Config{Store: store})
	require.NoError(t, err)
	require.Equal(t, guard.DefaultTimeout, g.Timeout())
}

func TestARequestThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	g := guards(t, kv.NewMemory(kv.MemoryOptions{}))
	for field, q := range map[string]guard.Request{
		"kind":    {Kind: "other", Space: "s", Type: "t"},
		"space":   {Type: "t"},
		"type":    {Space: "s"},
		"caller":  {Space: "s", Type: "t", Caller: strings.Repeat("x", job.MaxName+1)},
		"runId":   {Space: "s", Type: "t", RunID: strings.Repeat("x", job.MaxName+1)},
		"timeout": {Space: "s", Type: "t", Timeout: -time.Second},
	} {
		_, err := g.Begin(t.Context(), q)
		var wrong *job.FieldError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, field, wrong.Field)
	}
	require.Empty(t, g.Active())
}
