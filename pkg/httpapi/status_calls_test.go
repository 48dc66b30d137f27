package httpapi

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// foretold has calls end as the name of their queue says.
type foretold struct{ *fleetOf }

func (f foretold) Wait(ctx context.Context, key job.Key) (*job.Job, error) {
	j := &job.Job{Queue: key.Queue, Space: key.Space, ID: key.ID, Status: job.Status(key.Queue)}
	switch {
	case j.Status.Terminal():
		return j, nil
	case key.Queue == "gone":
		return nil, job.ErrNotFound
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// foretelling serves calls that end so, and events.
func (f *fleetOf) foretelling(t testing.TB) func(*Config) {
	t.Helper()
	g, err := guard.New(guard.Config{Store: kv.NewMemory(kv.MemoryOptions{})})
	require.NoError(t, err)
	c := NewCalls(CallsConfig{Guards: g, Jobs: foretold{f}})
	t.Cleanup(c.Close)
	telling := f.telling(t)
	return func(cfg *Config) {
		telling(cfg)
		cfg.Calls = c
	}
}

// unguarded has calls and events that fail at whatever they are asked.
func unguarded(t testing.TB) func(*Config) {
	e := NewEvents(EventsConfig{})
	t.Cleanup(e.Close)
	return func(cfg *Config) { cfg.Calls, cfg.Events = NewCalls(CallsConfig{}), e }
}

// tryCalls says how calls, their runs and events are asked for each of their own statuses on a server.
func tryCalls(t *testing.T, s *served, requests, tries map[string]try) {
	t.Helper()
	requests["call"] = try{method: "POST", path: "/v1/calls?wait=5m", body: `{"type":"t","queue":"succeeded"}`}
	requests["listRuns"] = try{method: "GET", path: "/v1/runs"}
	requests["streamEvents"] = try{method: "GET", path: "/v1/events?space=default&id=both&queue=a"}
	for name, c := range map[string]try{
		"call 200": requests["call"],
		"call 202": {method: "POST", path: "/v1/calls?wait=0s", body: `{"type":"t"}`},
		"call 404": {method: "POST", path: "/v1/calls", body: `{"type":"t"}`, with: []with{bearing(secretAcme)}},
		"call 409": {method: "POST", path: "/v1/calls?wait=5m", body: `{"type":"t","queue":"failed"}`},
		"call 410": {method: "POST", path: "/v1/calls?wait=5m", body: `{"type":"t","queue":"gone"}`},

		"listRuns 200": requests["listRuns"],
		"listRuns 404": {method: "GET", path: "/v1/runs?space=default", with: []with{bearing(secretAcme)}},

		"streamEvents 409": {method: "GET", path: "/v1/events?space=default&id=both"},
	} {
		tries[name] = c
	}
	a := s.ask("POST", "/v1/calls?wait=0s", `{"type":"t"}`)
	require.Equal(t, 202, a.status, a.body)
	requests["cancelRun"] = try{method: "POST", path: "/v1/runs/default/" + a.called(t).RunID + "/cancel"}
	tries["cancelRun 200"] = requests["cancelRun"]
	l := s.listen("", "")
	l.until("watching")
	l.close()
	tries["streamEvents 200"] = try{}
}
