package metrics

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// scrape is what a process says.
func scrape(t testing.TB, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	require.NoError(t, err)
	require.Equal(t, 200, w.Code, string(body))
	return string(body)
}

// handle gives a worker a handler of the type "does".
func handle(w *worker.Worker) {
	worker.Handle(w, "does", func(context.Context, *job.Job, map[string]any) (any, error) { return nil, nil })
}

const canary = "canary-5cfae1"

// A worker's attempts are counted by how they end, what there is to do is shown, and nothing of a job's own is in it.
func TestAWorkerIsMeasured(t *testing.T) {
	t.Parallel()
	nc := natstest.Connect(t, natstest.Embedded(t).URL())
	store, err := streams.Open(t.Context(), nc, streams.Config{})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	m := New("v1", "work", zerolog.Nop())
	w, err := worker.New(store, worker.Config{Observer: m})
	require.NoError(t, err)
	worker.Handle(w, "ends", func(_ context.Context, j *job.Job, _ map[string]any) (any, error) {
		switch j.ID {
		case "refused":
			return nil, job.Refuse(job.CodeForbidden, canary)
		case "own":
			return nil, job.Refuse("of_our_own", canary)
		case "failing":
			return nil, errors.New(canary)
		}
		return canary, nil
	}, worker.WithRetry(worker.RetryPolicy{Base: time.Millisecond, Max: time.Millisecond}))
	m.Store(store)
	m.Conn(nc)
	m.Worker(w)
	m.KVConflicts(func() uint64 { return 3 })
	for _, id := range []string{"fine", "refused", "own", "failing"} {
		_, err := store.Enqueue(t.Context(), job.Spec{ID: id, Type: "ends", MaxAttempts: 2, Input: []byte(`{"secret":"` + canary + `"}`)})
		require.NoError(t, err)
	}
	_, err = store.Enqueue(t.Context(), job.Spec{ID: canary, Space: canary, Type: canary})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	natstest.Eventually(t, time.Minute, func() error {
		for _, want := range []string{
			`jetcrew_attempts_total{queue="default",result="succeeded",type="ends"} 1`,
			`jetcrew_attempts_total{queue="default",result="dead",type="ends"} 2`,
			`jetcrew_attempts_total{queue="default",result="failed",type="ends"} 1`,
			`jetcrew_attempts_total{queue="default",result="retried",type="ends"} 1`,
			`jetcrew_attempts_total{queue="default",result="handed_back",type="unhandled"} 1`,
			`jetcrew_refusals_total{code="forbidden",queue="default",type="ends"} 1`,
			`jetcrew_refusals_total{code="other",queue="default",type="ends"} 1`,
			`jetcrew_run_seconds_count{queue="default",type="ends"} 5`,
			`jetcrew_pickup_seconds_count{queue="default"} 5`,
			`jetcrew_jobs{state="dead"} 2`,
			`jetcrew_jobs{state="due"} 1`,
			`jetcrew_queue_workers{queue="default"} 1`,
			`jetcrew_store_up 1`,
			`jetcrew_nats_connected 1`,
			`jetcrew_kv_conflicts_total 3`,
			`jetcrew_info{role="work",version="v1"} 1`,
		} {
			if text := scrape(t, m); !strings.Contains(text, want+"\n") {
				return errors.New("no " + want + " in:\n" + text)
			}
		}
		return nil
	})
	require.NotContains(t, scrape(t, m), canary)
	stop()
	require.NoError(t, <-done)
}

func TestWithoutAStoreNoFigureIsMadeUp(t *testing.T) {
	t.Parallel()
	srv := natstest.Embedded(t)
	nc := natstest.Connect(t, srv.URL())
	store, err := streams.Open(t.Context(), nc, streams.Config{})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	m := New("v1", "work", zerolog.Nop())
	m.Store(store)
	m.Conn(nc)
	srv.Shutdown()
	natstest.Eventually(t, time.Minute, func() error {
		text := scrape(t, m)
		if !strings.Contains(text, "jetcrew_store_up 0\n") || !strings.Contains(text, "jetcrew_nats_connected 0\n") ||
			strings.Contains(text, "jetcrew_jobs{") || strings.Contains(text, "jetcrew_nats_rtt_seconds ") {
			return errors.New(text)
		}
		return nil
	})
}

func TestFiresAreMeasured(t *testing.T) {
	t.Parallel()
	m := New("v1", "schedule", zerolog.Nop())
	at := time.Now()
	m.Fired(scheduler.Fire{At: at, Created: true, Late: 3 * time.Millisecond})
	m.Fired(scheduler.Fire{At: at, Created: true, Missed: 4, Late: time.Hour})
	m.Fired(scheduler.Fire{At: at})
	m.Fired(scheduler.Fire{At: at, Skipped: true})
	m.Fired(scheduler.Fire{Missed: 2})
	m.Fired(scheduler.Fire{At: at, Err: errors.New(canary)})
	m.Leading(true)
	text := scrape(t, m)
	for _, want := range []string{
		`schedule_fires_total{result="enqueued"} 2`, `schedule_fires_total{result="known"} 1`, `schedule_fires_total{result="skipped"} 1`,
		`schedule_fires_total{result="missed"} 1`, `schedule_fires_total{result="refused"} 1`, `schedule_fires_missed_total 6`,
		`schedule_lateness_seconds_count 2`, `leading 1`,
	} {
		require.Contains(t, text, "jetcrew_"+want+"\n")
	}
	m.Leading(false)
	require.Contains(t, scrape(t, m), "jetcrew_leading 0\n")
}

func TestRequestsAreMeasured(t *testing.T) {
	t.Parallel()
	m := New("v1", "serve", zerolog.Nop())
	begun, end := make(chan struct{}), make(chan struct{})
	h := m.API(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(begun); <-end }))
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/"+canary, nil))
	}()
	<-begun
	require.Contains(t, scrape(t, m), "jetcrew_http_requests_in_flight 1\n")
	close(end)
	<-done
	m.Served(httpapi.Served{Operation: "getJob", Method: "GET", Status: 200, Took: 2 * time.Second})
	m.Served(httpapi.Served{Operation: "getJob", Method: "GET", Status: 404, Code: httpapi.CodeNotFound})
	m.Served(httpapi.Served{Status: 405, Code: httpapi.CodeMethodNotAllowed})
	text := scrape(t, m)
	for _, want := range []string{
		`requests_total{method="GET",operation="getJob",status="2xx"} 1`, `requests_total{method="GET",operation="getJob",status="4xx"} 1`,
		`requests_total{method="none",operation="none",status="4xx"} 1`, `refusals_total{code="not_found",operation="getJob"} 1`,
		`refusals_total{code="method_not_allowed",operation="none"} 1`, `request_seconds_count{operation="getJob"} 2`,
		`request_seconds_sum{operation="getJob"} 2`, `requests_in_flight 0`,
	} {
		require.Contains(t, text, "jetcrew_http_"+want+"\n")
	}
	require.NotContains(t, text, canary)
	require.NotContains(t, scrape(t, New("v1", "work", zerolog.Nop())), "jetcrew_http_", "who serves no API has none")
}

// What the account stores is shown beside its limit, where it has one.
func TestTheRoomIsMeasured(t *testing.T) {
	t.Parallel()
	p := natstest.StartServer(t, natstest.ServerConfig{
		Extra: `accounts { A { jetstream { max_mem: 1MB, max_file: 100MB }, users: [ { user: a, password: a } ] }
			B { jetstream: enabled, users: [ { user: b, password: b } ] } }`,
	})
	for user, limited := range map[string]bool{"a": true, "b": false} {
		m := New("v1", "work", zerolog.Nop())
		m.Conn(natstest.Connect(t, strings.Replace(p.URL(), "://", "://"+user+":"+user+"@", 1)))
		text := scrape(t, m)
		require.Contains(t, text, `jetcrew_account_storage_bytes{tier=""} 0`+"\n")
		require.Equal(t, limited, strings.Contains(text, `jetcrew_account_storage_limit_bytes{tier=""} 1.048576e+08`+"\n"), text)
	}
}

// labelsOf are the labels of what is measured, with their values.
func labelsOf(t testing.TB, m *Metrics) map[string]map[string]map[string]bool {
	t.Helper()
	families, err := m.registry.Gather()
	require.NoError(t, err)
	all := make(map[string]map[string]map[string]bool)
	for _, f := range families {
		of := make(map[string]map[string]bool)
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if of[l.GetName()] == nil {
					of[l.GetName()] = make(map[string]bool)
				}
				of[l.GetName()][l.GetValue()] = true
			}
		}
		all[f.GetName()] = of
	}
	return all
}

// The alert rules, the dashboard and the documentation name metrics that exist; the documentation names all.
func TestWhatIsWrittenAboutMetricsIsTrue(t *testing.T) {
	t.Parallel()
	p := natstest.StartServer(t, natstest.ServerConfig{
		Extra: `accounts { A { jetstream { max_mem: 1MB, max_file: 100MB }, users: [ { user: a, password: a } ] } }`,
	})
	nc := natstest.Connect(t, strings.Replace(p.URL(), "://", "://a:a@", 1))
	store, err := streams.Open(t.Context(), nc, streams.Config{})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	w, err := worker.New(store, worker.Config{})
	require.NoError(t, err)
	handle(w)
	c, err := store.Consume(t.Context(), job.ConsumerConfig{WorkerID: "w", Slots: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	m := New("v1", "dev", zerolog.Nop())
	m.Store(store)
	m.Conn(nc)
	m.Worker(w)
	m.KVConflicts(func() uint64 { return 0 })
	m.AttemptStarted(worker.Started{})
	m.AttemptEnded(worker.Ended{Started: true, Refusal: job.CodeDisabled})
	m.Fired(scheduler.Fire{Created: true})
	m.API(http.NotFoundHandler())
	m.Served(httpapi.Served{Status: 422, Code: httpapi.CodeBadField})
	_, err = store.Enqueue(t.Context(), job.Spec{Type: "t"})
	require.NoError(t, err)

	exist := make(map[string]bool)
	for _, line := range strings.Split(scrape(t, m), "\n") {
		if name, ok := strings.CutPrefix(line, "# TYPE jetcrew_"); ok {
			exist["jetcrew_"+strings.Fields(name)[0]] = true
		}
	}
	require.Greater(t, len(exist), 15)
	word := regexp.MustCompile(`\bjetcrew_[a-z_]+\b`)
	selector := regexp.MustCompile(`\b(jetcrew_[a-z_]+)\{([^}]*)\}`)
	label := regexp.MustCompile(`^[a-z]+`)
	labels := labelsOf(t, m)
	for _, file := range []string{"alerts.yml", "grafana.json", "metrics.md"} {
		text, err := os.ReadFile("../../docs/" + file)
		require.NoError(t, err)
		named := make(map[string]bool)
		for _, name := range word.FindAllString(string(text), -1) {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if base := strings.TrimSuffix(name, suffix); exist[base] {
					name = base
				}
			}
			require.True(t, exist[name], "%s names %s", file, name)
			named[name] = true
		}
		for _, s := range selector.FindAllStringSubmatch(strings.ReplaceAll(string(text), `\"`, `"`), -1) {
			of := labels[strings.TrimSuffix(s[1], "_bucket")]
			matchers := strings.Split(s[2], ",")
			for _, matcher := range matchers {
				name := label.FindString(matcher)
				require.Contains(t, of, name, "%s: %s", file, s[0])
				if name != "result" && name != "reason" || name == matcher {
					continue // the values of others are not all there from the beginning
				}
				for _, value := range strings.Split(strings.Trim(strings.TrimLeft(matcher[len(name):], "=~!"), `"`), "|") {
					require.True(t, of[name][value], "%s: %s: %s", file, s[0], value)
				}
			}
			if file == "metrics.md" {
				require.Len(t, matchers, len(of), "%s: %s", file, s[0])
			}
		}
		if file == "metrics.md" {
			for name := range exist {
				require.True(t, named[name], "%s does not name %s", file, name)
			}
		}
	}
}
