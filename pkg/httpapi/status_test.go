package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

var errOdd = errors.New("odd")

// try is a request, and where it is sent.
type try struct {
	method, path, body string
	on                 *served
	with               []with
}

// usual are requests that do each operation well, in this order.
var usual = []struct {
	op, request, body string
}{
	{"health", "GET /healthz", ""},
	{"ready", "GET /readyz", ""},
	{"enqueueJob", "POST /v1/jobs", one},
	{"enqueueJobs", "POST /v1/jobs/bulk", `{"jobs":[` + one + `,{"type":"t","id":"other"},{"type":"t","id":"later","delay":"1h"}]}`},
	{"listJobs", "GET /v1/jobs?space=default&status=ready&status=due,running&since=1d&limit=10", ""},
	{"getJob", "GET /v1/jobs/default/welcome", ""},
	{"runJobNow", "POST /v1/jobs/default/later/run-now?queue=default", ""},
	{"cancelJob", "POST /v1/jobs/default/welcome/cancel", ""},
	{"requeueJob", "POST /v1/jobs/default/welcome/requeue", ""},
	{"deleteJob", "DELETE /v1/jobs/default/other", ""},
	{"cancelJobs", "POST /v1/jobs/cancel", `{"filter":{"spaces":["default"],"type":"email"}}`},
	{"requeueJobs", "POST /v1/jobs/requeue", `{"filter":{"spaces":["default"],"statuses":["cancelled"]}}`},
	{"runJobsNow", "POST /v1/jobs/run-now", `{"filter":{"spaces":["default"],"since":"1h"},"dryRun":true}`},
	{"deleteJobs", "POST /v1/jobs/delete", `{"filter":{"spaces":["default"],"queue":"none"},"limit":3}`},
	{"countJobs", "GET /v1/counts", ""},
	{"listQueues", "GET /v1/queues", ""},
	{"getQueue", "GET /v1/queues/default", ""},
	{"pauseQueue", "POST /v1/queues/default/pause?for=1h", ""},
	{"resumeQueue", "POST /v1/queues/default/resume", ""},
	{"configureQueue", "PATCH /v1/queues/mail", `{"concurrency":3,"lease":"1m","retention":{"succeeded":"1h","dead":"default"}}`},
	{"purgeQueue", "POST /v1/queues/default/purge?status=ready,due&dryRun=true", ""},
	{"deleteQueue", "DELETE /v1/queues/mail", ""},
	{"listWorkers", "GET /v1/workers?jobs=true", ""},
	{"putSchedule", "PUT /v1/schedules/default/nightly?owner=", `{"type":"t","cron":"@daily","timeout":"1m"}`},
	{"reconcileSchedules", "PUT /v1/schedules/default", `{"owner":"billing","schedules":[{"name":"bills","type":"t","cron":"0 3 * * *"}]}`},
	{"listSchedules", "GET /v1/schedules?space=default&limit=5", ""},
	{"getSchedule", "GET /v1/schedules/default/nightly", ""},
	{"disableSchedule", "POST /v1/schedules/default/nightly/disable", ""},
	{"enableSchedule", "POST /v1/schedules/default/nightly/enable", ""},
	{"runSchedule", "POST /v1/schedules/default/nightly/run", ""},
	{"nextFires", "GET /v1/schedules/default/nightly/next?count=3", ""},
	{"previewCron", "GET /v1/cron/next?cron=@hourly&timezone=Europe/Paris", ""},
	{"schedulerStatus", "GET /v1/scheduler", ""},
	{"deleteSchedule", "DELETE /v1/schedules/default/bills", ""},
	{"putValue", "PUT /v1/kv/default/greeting?ttl=7d", `{"text":"hello"}`},
	{"getValue", "GET /v1/kv/default/greeting", ""},
	{"expireValue", "POST /v1/kv/default/greeting/expire?ttl=1h", ""},
	{"swapValue", "POST /v1/kv/default/greeting/swap", `{"expected":{"text":"hello"},"next":7}`},
	{"increment", "POST /v1/kv/default/visits/increment?by=2&ttl=1m", ""},
	{"listKeys", "GET /v1/kv/default?prefix=g&limit=1", ""},
	{"deleteValueIf", "POST /v1/kv/default/greeting/delete", `{"expected":7}`},
	{"deleteValue", "DELETE /v1/kv/default/greeting", ""},
	{"putEntry", "PUT /v1/lists/default/board/ada?keep=10", `{"score":12.5,"value":{"level":1}}`},
	{"rangeList", "GET /v1/lists/default/board?limit=3&ascending=true", ""},
	{"listLists", "GET /v1/lists/default", ""},
	{"removeEntry", "DELETE /v1/lists/default/board/ada", ""},
	{"deleteList", "DELETE /v1/lists/default/board", ""},
	{"wipeSpace", "POST /v1/kv/other/wipe", ""},
	{"createToken", "POST /v1/tokens", `{"name":"shop","scopes":["enqueue","read"],"spaces":["default"],"expires":"90d"}`},
	{"listTokens", "GET /v1/tokens", ""},
	{"revokeToken", "DELETE /v1/tokens/shop", ""},
	{"listRefusals", "GET /v1/refusals?since=1h&limit=5", ""},
	{"getError", "GET /v1/errors/aaaabbbbccccdddd", ""},
}

// TestEveryDocumentedStatusIsAnswered asks each operation of the OpenAPI document for each status that it is said to
// answer with, and for no other.
func TestEveryDocumentedStatusIsAnswered(t *testing.T) {
	f := newFleet(t)
	away := newFickle()
	away.away.Store(true)
	access := f.access(t, AccessConfig{})
	access.failed(Failure{ErrorID: "aaaabbbbccccdddd", Request: "r", Error: "odd"})
	access.flush(t.Context(), soon, true)
	foretelling := f.foretelling(t)
	remembering := func(c *Config) {
		foretelling(c)
		c.Access = access
	}
	s := serveTest(t, f.all, remembering, func(c *Config) { c.MaxBody, c.MaxBulkBody = 1000, 1000 })
	servers := map[string]*served{
		"": s, "open": serveTest(t, f.all, foretelling, func(c *Config) {
			c.Tokens, c.Access = nil, accessOf(t, kv.NewMemory(kv.MemoryOptions{}), AccessConfig{})
		}),
		"away":    serveTest(t, f.all, remembering, func(c *Config) { c.Connected = func() bool { return false } }),
		"slow":    serveTest(t, f.all, remembering, func(c *Config) { c.BodyTimeout = 50 * time.Millisecond }),
		"failing": serveTest(t, broken, unguarded(t), func(c *Config) { c.Access = accessOf(t, away, AccessConfig{}) }),
		"sick":    serveTest(t, func(c *Config) { c.Ready = NewReadiness(func(context.Context) error { return errOdd }) }),
		"partly":  serveTest(t),
		"short":   serveTest(t, func(c *Config) { c.Jobs = &shortStore{newStore()} }),
		"waiting": serveTest(t, func(c *Config) { c.Queues, c.LongTimeout = &unhurried{}, 50*time.Millisecond }),
	}
	used := f.access(t, AccessConfig{TokenRate: config.Rate{Count: 1, Per: time.Hour}, Clock: stopped{}})
	servers["limited"] = serveTest(t, f.all, foretelling, func(c *Config) { c.Access = used })
	require.Equal(t, 200, servers["limited"].ask("GET", "/v1/jobs?space=default", "").status)
	servers["failing"].store.fail = func(context.Context, job.Key) error { return errOdd }
	servers["partly"].store.fail = func(_ context.Context, k job.Key) error {
		if k.ID == "welcome" {
			return job.ErrTooLarge
		}
		return nil
	}
	never := make(endless)
	defer close(never)

	requests := make(map[string]try)
	tries := make(map[string]try)
	for _, u := range usual { // what follows finds what they left
		method, path, _ := strings.Cut(u.request, " ")
		requests[u.op] = try{method: method, path: path, body: u.body}
		a := s.ask(method, path, u.body)
		require.Less(t, a.status, 300, "%s: %s", u.op, a.body)
		tries[u.op+" "+strconv.Itoa(a.status)] = try{}
	}
	f.nonsense(t)
	f.notText(t)
	seed := []string{
		"POST /v1/jobs", `{"type":"t","id":"both","queue":"a"}`, "POST /v1/jobs", `{"type":"t","id":"both","queue":"b"}`,
		"POST /v1/jobs", `{"type":"t","id":"done"}`, "POST /v1/jobs/default/done/cancel", "",
		"PUT /v1/kv/default/text", `"t"`, "PUT /v1/lists/default/board/bob", `{"score":9}`,
		"PUT /v1/schedules/default/bills?owner=billing", `{"type":"t","cron":"@daily"}`,
	}
	for i := 0; i < len(seed); i += 2 {
		method, path, _ := strings.Cut(seed[i], " ")
		a := s.ask(method, path, seed[i+1])
		require.Less(t, a.status, 300, a.body)
	}
	tryCalls(t, s, requests, tries)
	// What each operation says besides.
	own := map[string]string{
		"enqueueJob 201": "POST /v1/jobs {\"type\":\"t\"}", "enqueueJob 200": "POST /v1/jobs {\"type\":\"t\",\"id\":\"both\",\"queue\":\"a\"}",
		"getJob 409": "GET /v1/jobs/default/both", "cancelJob 409": "POST /v1/jobs/default/done/cancel",
		"requeueJob 409": "POST /v1/jobs/default/later/requeue", "runJobNow 409": "POST /v1/jobs/default/done/run-now", "deleteJob 409": "DELETE /v1/jobs/default/both",
		"enqueueJob 404":  "POST /v1/jobs acme:" + one,
		"enqueueJobs 404": "POST /v1/jobs/bulk acme:" + `{"jobs":[` + one + `]}`,
		"listJobs 404":    "GET /v1/jobs?space=default acme:", "listSchedules 404": "GET /v1/schedules?space=default acme:",
		"getQueue 404": "GET /v1/queues/nowhere", "pauseQueue 404": "POST /v1/queues/nowhere/pause", "resumeQueue 404": "POST /v1/queues/nowhere/resume",
		"purgeQueue 404": "POST /v1/queues/nowhere/purge", "deleteQueue 404": "DELETE /v1/queues/nowhere", "deleteQueue 409": "DELETE /v1/queues/default",
		"putSchedule 200": "PUT /v1/schedules/default/nightly {\"type\":\"t\",\"cron\":\"@daily\"}",
		"putSchedule 409": "PUT /v1/schedules/default/bills {\"type\":\"t\",\"cron\":\"@daily\"}",
		"getSchedule 409": "GET /v1/schedules/default/garbage", "nextFires 409": "GET /v1/schedules/default/garbage/next",
		"enableSchedule 409": "POST /v1/schedules/default/garbage/enable", "disableSchedule 409": "POST /v1/schedules/default/garbage/disable",
		"runSchedule 409":        "POST /v1/schedules/default/garbage/run",
		"reconcileSchedules 409": `PUT /v1/schedules/default {"owner":"x","schedules":[{"name":"bills","type":"t","cron":"@daily"}]}`,
		"getValue 409":           "GET /v1/kv/default/raw", "increment 409": "POST /v1/kv/default/text/increment",
		"swapValue 409": `POST /v1/kv/default/text/swap {"next":1}`, "deleteValueIf 409": `POST /v1/kv/default/text/delete {"expected":1}`,
		"createToken 409": `POST /v1/tokens {"name":"acme","scopes":["read"]}`, "revokeToken 404": "DELETE /v1/tokens/nobody",
		"getError 404": "GET /v1/errors/bbbbccccddddaaaa",
		"putEntry 409": `PUT /v1/lists/default/board/bob?higherOnly=true {"score":1}`,
	}
	for name, request := range own {
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		c := try{method: method, path: path}
		if c.body, _ = strings.CutPrefix(body, "acme:"); c.body != body {
			c.with = []with{bearing(secretAcme)}
		}
		tries[name] = c
	}
	tries["ready 503"] = try{method: "GET", path: "/readyz", on: servers["sick"]}
	tries["enqueueJobs 207"] = try{method: "POST", path: "/v1/jobs/bulk", body: requests["enqueueJobs"].body, on: servers["partly"]}
	tries["enqueueJobs 500"] = try{method: "POST", path: "/v1/jobs/bulk", body: requests["enqueueJobs"].body, on: servers["short"]}
	tries["configureQueue 202"] = try{method: "PATCH", path: "/v1/queues/x", body: `{"lease":"1s"}`, on: servers["waiting"]}
	for _, op := range []string{"cancelJobs", "requeueJobs", "runJobsNow", "deleteJobs"} {
		tries[op+" 404"] = try{method: "POST", path: requests[op].path, body: requests[op].body, with: []with{bearing(secretAcme)}}
	}

	// usually is the request for a status that all operations have in common.
	usually := func(op string, status int) try {
		c := requests[op]
		switch status {
		case 400:
			c.body = "{"
		case 401:
			c.with = []with{header("Authorization", "")}
		case 403:
			c.on, c.with = servers["open"], []with{func(r *http.Request) { r.Host = "evil.example" }}
		case 404:
			c.with = []with{bearing(secretAcme)}
		case 405:
			c.method = "REPORT"
		case 408:
			c.on, c.with = servers["slow"], []with{func(r *http.Request) { r.Body, r.ContentLength = never, 500 }}
		case 413:
			c.body = `{"type":"` + strings.Repeat("x", 2000) + `"}`
		case 415:
			c.with = []with{header("Content-Type", "text/plain")}
		case 422:
			c.path += map[bool]string{true: "&", false: "?"}[strings.Contains(c.path, "?")] + "nonsense=1"
		case 429:
			c.on = servers["limited"]
		case 500:
			c.on = servers["failing"]
		case 503:
			c.on = servers["away"]
			if op == "previewCron" { // which asks nobody but who calls
				c.on, c.with = servers["failing"], []with{bearing("somebody-else's-token-entirely")}
			}
		}
		return c
	}
	asked := make(map[string]bool)
	for _, methods := range document(t, s).Paths {
		for _, op := range methods {
			require.Contains(t, requests, op.OperationID)
			for status := range op.Responses {
				name := op.OperationID + " " + status
				asked[name] = true
				want, err := strconv.Atoi(status)
				require.NoError(t, err, name)
				c, special := tries[name]
				switch {
				case special && c.method == "":
					continue // it was asked for at the beginning
				case !special:
					c = usually(op.OperationID, want)
				}
				if c.on == nil {
					c.on = s
				}
				a := c.on.ask(c.method, c.path, c.body, c.with...)
				require.Equal(t, want, a.status, "%s: %s %s: %s", name, c.method, c.path, a.body)
				if a.status >= 400 {
					a.problem(t)
				}
				if a.status == 503 || a.status == 429 {
					require.NotEmpty(t, a.header.Get("Retry-After"), name)
				}
			}
		}
	}
	for name := range tries {
		require.True(t, asked[name], "%s is answered, and not documented", name)
	}
}

// TestWhatHangsIsNotSaidToBeUndone: a store that does not answer may have done what it was asked.
func TestWhatHangsIsNotSaidToBeUndone(t *testing.T) {
	s := serveTest(t, func(c *Config) { c.Timeout = 100 * time.Millisecond })
	s.store.fail = func(ctx context.Context, _ job.Key) error {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", job.ErrUnknown, ctx.Err())
	}
	require.Equal(t, CodeOutcomeUnknown, s.ask("POST", "/v1/jobs", one).problem(t).Code)
	require.Equal(t, 503, s.ask("GET", "/v1/jobs/default/x", "").status)
	q := serveTest(t, func(c *Config) { c.Queues, c.LongTimeout = &unhurried{}, 50*time.Millisecond })
	a := q.ask("PATCH", "/v1/queues/x", `{"lease":"2s"}`) // which it does not come to
	require.Equal(t, 503, a.status)
	require.Equal(t, CodeOutcomeUnknown, a.problem(t).Code)
}

// shortStore forgets to answer for a job.
type shortStore struct{ *store }

func (s *shortStore) EnqueueMany(context.Context, []job.Spec) ([]job.Enqueued, error) {
	return nil, nil
}

// endless is a body that does not come before the test is over.
type endless chan struct{}

func (e endless) Read([]byte) (int, error) {
	<-e
	return 0, io.ErrUnexpectedEOF
}

func (e endless) Close() error { return nil }

func TestEachOperationTakesOneScope(t *testing.T) {
	f := newFleet(t)
	reads := []string{string(ScopeRead), string(ScopeKVRead)}
	// What these tell is for whoever may do more than look.
	guarded := map[string]Scope{"listTokens": ScopeAdmin, "listRefusals": ScopeOperate, "getError": ScopeOperate}
	for path, methods := range document(t, serveTest(t, f.all, f.foretelling(t), func(c *Config) { c.Access = f.access(t, AccessConfig{}) })).Paths {
		if !strings.HasPrefix(path, "/v1/") {
			continue
		}
		for method, op := range methods {
			require.Len(t, op.Security, 1, op.OperationID)
			scopes := op.Security[0][tokenScheme]
			require.Len(t, scopes, 1, op.OperationID)
			require.Contains(t, Scopes(), Scope(scopes[0]), op.OperationID)
			if scope, ok := guarded[op.OperationID]; ok {
				require.EqualValues(t, scope, scopes[0], op.OperationID)
				continue
			}
			require.Equal(t, method == "get", slices.Contains(reads, scopes[0]), op.OperationID)
		}
	}
}
