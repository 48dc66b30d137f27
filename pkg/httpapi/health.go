package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/rs/zerolog"
)

const (
	pathHealth = "/healthz"
	pathReady  = "/readyz"

	pathMetrics = "/metrics"

	// readyTimeout bounds the wait for the store's answer.
	readyTimeout = 2 * time.Second
	// readyFor is how long an answer is good for, however many ask.
	readyFor = time.Second
)

// Readiness asks whether requests can be served, at most once a second.
type Readiness struct {
	check func(context.Context) error

	mu  sync.Mutex // held while one asks for all
	at  time.Time
	err error
}

// NewReadiness makes one of a check, which gets 2 s.
func NewReadiness(check func(context.Context) error) *Readiness { return &Readiness{check: check} }

// ask answers nil, or why nothing can be served.
func (r *Readiness) ask(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < readyFor {
		return r.err
	}
	// Who asks first may go away before the others have their answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	r.err = r.check(ctx)
	r.at = time.Now()
	return r.err
}

// Health is a handler for /healthz and /readyz, and for /metrics where there are any, alone. They need no token, and tell
// nothing but how things are.
func Health(ready *Readiness, metrics http.Handler, log zerolog.Logger) http.Handler {
	mux := http.NewServeMux()
	registerHealth(newAPI(mux, ""), ready)
	if metrics != nil {
		mux.Handle("GET "+pathMetrics, metrics)
	}
	return newFront(mux, nil, false, log)
}

// condition is the answer of both.
type condition struct {
	Status string `json:"status" enum:"ok"`
}

type conditionOutput struct{ Body condition }

func registerHealth(api huma.API, ready *Readiness) {
	ok := &conditionOutput{condition{"ok"}}
	huma.Register(api, huma.Operation{
		OperationID: "health", Method: http.MethodGet, Path: pathHealth,
		Summary:   "Whether the process lives",
		Responses: answers(api, reflect.TypeFor[condition](), []int{200}, 405),
	}, func(context.Context, *struct{}) (*conditionOutput, error) { return ok, nil })
	huma.Register(api, huma.Operation{
		OperationID: "ready", Method: http.MethodGet, Path: pathReady,
		Summary:     "Whether requests can be served",
		Description: "The connection to NATS stands, and the store answered within two seconds, a second ago at most.",
		Responses:   answers(api, reflect.TypeFor[condition](), []int{200}, 405, 503),
	}, func(ctx context.Context, _ *struct{}) (*conditionOutput, error) {
		if err := ready.ask(ctx); err != nil {
			p := newProblem(http.StatusServiceUnavailable, CodeUnavailable, "not ready")
			return nil, p.because(ctx, err)
		}
		return ok, nil
	})
}
