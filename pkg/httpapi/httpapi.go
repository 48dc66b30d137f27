// Package httpapi is the way in over HTTP, for producers and operators without a NATS client: jobs are put in, read and
// steered, queues and schedules set, the key/value store used, all as JSON, described by an OpenAPI 3.1 document that is
// generated from the code.
//
// It promises that what a caller may do comes from the caller's token alone, that a space which the token does
// not name looks as if it were empty, that a request is bounded in size, depth and time, and that errors are
// RFC 9457 problems with codes that do not change, without anything internal in them: the details of a failure
// are in the log, under the id that the caller was given.
//
// It leaves to others where jobs are kept (Config.Jobs), and TLS (a proxy in front of it).
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Jobs is what the API asks of the job queue to put jobs in and to read them; *client.Client is one, and an Operator and
// Queues as well.
type Jobs interface {
	EnqueueSpec(ctx context.Context, spec job.Spec) (job.Enqueued, error)
	EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error)
	Get(ctx context.Context, key job.Key) (*job.Job, error)
}

// Operator lists jobs and steers them.
type Operator interface {
	job.Clock
	job.Lister
	job.Steerer
}

// Queues are asked how much there is to do, and told how it is to be worked off.
type Queues interface {
	job.Clock
	job.QueueOperator
	bulkOperator
	Count(ctx context.Context) (*job.Counts, error)
	Workers(ctx context.Context) ([]job.Worker, error)
}

// Config of the API. Jobs is required. There are routes only for what is given.
type Config struct {
	Jobs     Jobs
	Operator Operator
	Queues   Queues
	// Schedules opens the schedules. It is asked for each request that needs them, so it keeps what it has opened, and
	// where it could not it tries again.
	Schedules func(context.Context) (Schedules, error)
	KV        *kv.Store
	// Calls serves calls and their runs, and Events what happens to jobs. Whoever made them closes them when the server
	// begins to stop.
	Calls  *Calls
	Events *Events
	// Ready says whether requests can be served; see NewReadiness. Defaults to always.
	Ready *Readiness
	// Connected says at once, without asking anybody, that the store cannot be reached: a request is then
	// refused before anything may have been stored. Defaults to always.
	Connected func() bool
	// Tokens say who may call. Without any, everyone who can reach the API may do everything, so that it must
	// be reachable from this machine only (see Listen), and requests that name another host are refused.
	Tokens *Tokens
	// Access adds the tokens that are stored, rates, and the records of what was refused. With it, the API without Tokens
	// is open only for as long as no token was ever stored. Whoever made it closes it, after the server.
	Access *Access
	// MaxReady is how many ready jobs a queue may have for more to be put in. It needs Queues. Defaults to no limit.
	MaxReady int
	// MaxBody is the largest body of a request for one job, in bytes. Defaults to 1 MiB, which is also what a
	// NATS server takes unless told otherwise.
	MaxBody int64
	// MaxBulkBody is the largest body of a bulk request, in bytes. Defaults to 8 MiB.
	MaxBulkBody int64
	// BodyTimeout bounds the wait for a body. Defaults to 10 s.
	BodyTimeout time.Duration
	// Timeout bounds what is asked of the store for one request. Defaults to 10 s.
	Timeout time.Duration
	// LongTimeout bounds it for what goes over many things, or waits for workers. It has to leave the server the time to
	// answer (Server.WriteTimeout). Defaults to 45 s.
	LongTimeout time.Duration
	// Version stands in the OpenAPI document. Defaults to "devel".
	Version string
	// Logger takes refusals and failures, and at debug every request. Defaults to none.
	Logger zerolog.Logger
	// Observe is told of each request when it was answered. It must not block. Defaults to nobody.
	Observe func(Served)
}

func (c *Config) normalize() {
	if c.Ready == nil {
		c.Ready = NewReadiness(func(context.Context) error { return nil })
	}
	if c.Connected == nil {
		c.Connected = func() bool { return true }
	}
	setDefault(&c.MaxBody, 1<<20)
	setDefault(&c.MaxBulkBody, 8<<20)
	setDefault(&c.BodyTimeout, 10*time.Second)
	setDefault(&c.Timeout, 10*time.Second)
	setDefault(&c.LongTimeout, 45*time.Second)
	setDefault(&c.Version, "devel")
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// New makes the API's handler.
func New(cfg Config) (http.Handler, error) {
	cfg.normalize()
	mux := http.NewServeMux()
	api := newAPI(mux, cfg.Version)
	registerHealth(api, cfg.Ready)
	if cfg.MaxReady > 0 {
		if cfg.Queues == nil {
			return nil, errors.New("httpapi: Config.MaxReady needs Queues")
		}
		cfg.Jobs = &boundedJobs{Jobs: cfg.Jobs, most: cfg.MaxReady, count: cfg.Queues.Count}
	}
	r := &routes{api, &cfg}
	registerJobs(r)
	if cfg.Operator != nil {
		registerList(r)
		registerSteer(r)
		registerBulk(r)
	}
	if cfg.Queues != nil {
		registerQueues(r)
		registerWorkers(r)
	}
	if cfg.Schedules != nil {
		registerSchedules(r)
	}
	if cfg.KV != nil {
		registerKV(r)
	}
	if cfg.Calls != nil {
		registerCalls(r)
	}
	if cfg.Events != nil {
		registerEvents(r)
	}
	if cfg.Access != nil {
		registerTokens(r)
		registerRecords(r)
	}
	// huma describes errors of its own, which asProblem never lets out.
	for _, name := range []string{"ErrorModel", "ErrorDetail"} {
		delete(api.OpenAPI().Components.Schemas.Map(), name)
	}
	document, err := json.Marshal(api.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("httpapi: writing the OpenAPI document: %w", err)
	}
	mux.HandleFunc(documentPattern, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(document) // whoever asked has gone
	})
	f := newFront(mux, cfg.Tokens, true, cfg.Logger)
	f.access = cfg.Access
	f.operations, f.observe = operations(api.OpenAPI()), cfg.Observe
	return f, nil
}

// newAPI begins an OpenAPI document whose operations are served by mux.
func newAPI(mux *http.ServeMux, version string) huma.API {
	return humago.New(slashMux{mux}, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "jetcrew", Version: version,
				Description: "Background jobs on NATS JetStream. Errors are RFC 9457 problems; their code does not change.",
			},
			Components: &huma.Components{
				SecuritySchemes: map[string]*huma.SecurityScheme{tokenScheme: {Type: "http", Scheme: "bearer"}},
			},
		},
		Formats: map[string]huma.Format{
			"application/json": {Marshal: writeJSON},
			"json":             {Marshal: writeJSON},
		},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{asProblem},
	})
}

// tokenScheme is the name under which the OpenAPI document speaks of bearer tokens.
const tokenScheme = "token"
