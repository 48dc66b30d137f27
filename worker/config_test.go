package worker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestConfigErrorsNameTheField(t *testing.T) {
	for field, cfg := range map[string]Config{
		"ID":           {ID: strings.Repeat("x", 192)},
		`Queues[""]`:   {Queues: map[string]int{"": 1}},
		`Queues["q"]`:  {Queues: map[string]int{"q": -1}},
		`Queues["z"]`:  {Queues: map[string]int{"a": 1, "z": MaxConcurrency + 1}},
		"Lease":        {Lease: time.Millisecond},
		"Timeout":      {Timeout: -1},
		"Grace":        {Grace: -1},
		"DrainTimeout": {DrainTimeout: -1},
		"MaxStuck":     {MaxStuck: -1},
		"Version":      {Version: strings.Repeat("x", 192)},
		"Retry.Base":   {Retry: RetryPolicy{Base: time.Minute, Max: time.Second}},
		"Retry.Max":    {Retry: RetryPolicy{Max: -1}},
	} {
		t.Run(field, func(t *testing.T) {
			_, err := New(newFake(), cfg)
			var wrong *job.FieldError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, field, wrong.Field)
			require.ErrorContains(t, err, "worker: "+field+": ")
		})
	}
	_, err := New(nil, Config{})
	require.ErrorContains(t, err, "no queue")
}

func TestZeroConfigHasDefaults(t *testing.T) {
	w, err := New(newFake(), Config{})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"default": 4}, w.cfg.Queues)
	require.Equal(t, 30*time.Second, w.cfg.Lease)
	require.Equal(t, RetryPolicy{Base: 30 * time.Second, Max: 15 * time.Minute}, w.cfg.Retry)
	require.Equal(t, 30*time.Second, w.cfg.Grace)
	require.Equal(t, 10, w.cfg.MaxStuck)
	require.Zero(t, w.cfg.DrainTimeout)
}

func TestTextsAreRecordedWithoutSecrets(t *testing.T) {
	cfg := Config{Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }}
	require.Equal(t, `dial nats://[redacted]@host:4222: refused, key ***`,
		cfg.recordable(`dial nats://joe:s3cr@t@host:4222: refused, key hunter2`))
	require.Equal(t, "https://host/a:b", cfg.recordable("https://host/a:b"))
	require.Equal(t, "postgres://[redacted]@db/x", cfg.redacted(errors.New("postgres://:pw@db/x")))
	require.LessOrEqual(t, len(cfg.recordable(strings.Repeat("ä", 4000))), job.MaxError)
}
