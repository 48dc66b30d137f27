package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// front stands before the routes: it names each request, says who makes it, refuses what need not get further, and
// tells the log how it went.
type front struct {
	mux    *http.ServeMux
	tokens *Tokens
	access *Access
	// guarded is false where there is nothing but health to be asked.
	guarded bool
	origin  *http.CrossOriginProtection
	log     zerolog.Logger
	// operations are the ids of the operations by their patterns; observe is told of each request. Nil where nobody asks.
	operations map[string]string
	observe    func(Served)
}

func newFront(mux *http.ServeMux, tokens *Tokens, guarded bool, log zerolog.Logger) *front {
	return &front{mux: mux, tokens: tokens, guarded: guarded, origin: http.NewCrossOriginProtection(), log: log}
}

// info is what is known of a request. It belongs to the goroutine that serves it.
type info struct {
	id       string
	writer   http.ResponseWriter
	request  *http.Request
	caller   *caller
	scope    Scope  // of the operation that is asked for
	body     []byte // where the operation has one
	code     Code
	detail   string
	failures []failure

	access    *Access
	operation string   // its method and path, as the mux knows it
	claimed   string   // the name of a token that is not good any more
	space     string   // what it concerns, or the first of them
	counted   []string // spaces for which it was counted
	denied    bool     // the caller may not
	ran       bool     // the operation was begun
}

// refused reports whether the request came to nothing before anything was done: operations look at what they were given
// before they begin.
func (in *info) refused(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusTooManyRequests:
		return true
	}
	return in.code != "" && (in.denied || !in.ran)
}

// failure is what a caller must not see, and the id that the caller is given instead.
type failure struct {
	id  string
	err error
}

type infoKey struct{}

// infoOf is what is known of the request that ctx belongs to.
func infoOf(ctx context.Context) *info {
	i, _ := ctx.Value(infoKey{}).(*info)
	return i
}

// callerOf is who makes the request that ctx belongs to. Nobody in particular may do nothing.
func callerOf(ctx context.Context) *caller {
	if i := infoOf(ctx); i != nil && i.caller != nil {
		return i.caller
	}
	return &caller{spaces: []string{""}}
}

// ServeHTTP serves one request.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	in := &info{id: requestID(r), access: f.access}
	r = r.WithContext(context.WithValue(r.Context(), infoKey{}, in))
	sw := &statusWriter{ResponseWriter: w}
	asked := pastMux(r)
	in.writer, in.request = sw, asked
	h := w.Header()
	h.Set("X-Request-Id", in.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	defer func() {
		if v := recover(); v != nil {
			f.panicked(sw, r, in, v)
		}
		f.tell(r, in, sw.status, time.Since(begun))
	}()
	_, in.operation = f.mux.Handler(asked)
	if p := f.refuse(r, in); p != nil {
		f.write(sw, in, p)
		return
	}
	if in.operation == "" {
		f.noRoute(sw, asked, in)
		return
	}
	f.mux.ServeHTTP(sw, asked)
}

// refuse answers what is wrong with a request before anybody looks at what it wants.
func (f *front) refuse(r *http.Request, in *info) *Problem {
	if !f.guarded || r.URL.Path == pathHealth || r.URL.Path == pathReady {
		return nil
	}
	if err := f.origin.Check(r); err != nil {
		return newProblem(http.StatusForbidden, CodeForbidden, "the request comes from another site")
	}
	open, p := f.identify(r, in)
	switch {
	case p != nil:
		return p
	case !open:
		return f.access.limitToken(r.Context(), in.caller.name)
	case !loopbackName(r.Host):
		// Without tokens it is the machine that is trusted. A page whose name was made to point here is not.
		return newProblem(http.StatusForbidden, CodeForbidden, "without tokens, only requests to localhost are served")
	}
	in.caller = &caller{name: "anyone"}
	return nil
}

// identify finds out who makes a request, or whether everybody may, since there are no tokens. Tokens that were given at
// the start are good whether or not the store can be read.
func (f *front) identify(r *http.Request, in *info) (open bool, p *Problem) {
	secret := bearer(r.Header.Values("Authorization"))
	if in.caller = f.tokens.find(secret); in.caller != nil {
		return false, nil
	}
	required := newProblem(http.StatusUnauthorized, CodeUnauthorized, "a bearer token that is known here is required")
	switch {
	case f.access == nil:
		if f.tokens == nil {
			return true, nil
		}
		return false, required
	case f.tokens != nil && !plausible(secret):
		return false, required
	}
	c, says, err := f.access.find(r.Context(), secret)
	switch says {
	case knownCaller:
		in.caller = c
		f.access.usedToken(c.name)
		return false, nil
	case expiredToken:
		in.claimed, required.Detail = c.name, "the token has expired"
	case revokedToken:
		in.claimed, required.Detail = c.name, "the token was revoked"
	case cannotBeKnown:
		p := newProblem(http.StatusServiceUnavailable, CodeUnavailable, "it cannot be looked up now who may call; nothing was changed")
		return false, p.because(r.Context(), err)
	case openToAll:
		if f.tokens == nil {
			return true, nil
		}
	}
	return false, required
}

// bearer is the token in the Authorization header, of which there may be one; nothing, where there is none.
func bearer(headers []string) string {
	if len(headers) != 1 {
		return ""
	}
	scheme, secret, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

// plausible reports whether a text can be a token at all.
func plausible(secret string) bool { return len(secret) >= minToken }

// loopbackName reports whether a Host header names this machine.
func loopbackName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// noRoute asks the mux what is wrong with the path or the method.
func (f *front) noRoute(w *statusWriter, r *http.Request, in *info) {
	probe := &headerOnly{header: http.Header{}}
	f.mux.ServeHTTP(probe, r)
	if probe.status != http.StatusMethodNotAllowed {
		f.write(w, in, noSuchJob())
		return
	}
	allow := probe.header.Get("Allow")
	w.Header().Set("Allow", allow)
	f.write(w, in, newProblem(http.StatusMethodNotAllowed, CodeMethodNotAllowed, "this path takes "+allow))
}

// write answers with a problem.
func (f *front) write(w *statusWriter, in *info, p *Problem) {
	in.code, in.detail = p.Code, p.Detail
	h := w.Header()
	maps.Copy(h, p.GetHeaders())
	h.Set("Content-Type", problemType)
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="jetcrew"`)
	}
	w.WriteHeader(p.Status)
	_ = writeJSON(w, p) // whoever asked has gone
}

// panicked answers a request whose handler panicked.
func (f *front) panicked(w *statusWriter, r *http.Request, in *info, v any) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v) // it is meant to reach the server
	}
	p := internal().because(r.Context(), fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
	if w.status == 0 {
		f.write(w, in, p)
	}
}

// statusGone is what the log says of a request whose caller did not wait for the answer.
const statusGone = 499

// tell logs a request: failures as errors, refusals as warnings, the rest for whoever debugs.
func (f *front) tell(r *http.Request, in *info, status int, took time.Duration) {
	var ev *zerolog.Event
	health := r.URL.Path == pathHealth || r.URL.Path == pathReady
	switch {
	case errors.Is(r.Context().Err(), context.Canceled) && status >= 500:
		status, ev = statusGone, f.log.Debug()
	case health:
		ev = f.log.Debug()
	case status >= 500:
		ev = f.log.Error()
	case status >= 400:
		ev = f.log.Warn()
	default:
		ev = f.log.Debug()
	}
	f.count(in, status, took)
	ev = ev.Str("request", in.id).Str("method", r.Method).Str("path", cut(r.URL.EscapedPath())).Int("status", status).Dur("tookMs", took)
	if in.caller != nil {
		ev = ev.Str("caller", in.caller.name)
	} else {
		ev = ev.Str("from", r.RemoteAddr)
	}
	if in.code != "" {
		ev = ev.Str("code", string(in.code))
	}
	ev.Msg("http request")
	if status != statusGone && !health {
		f.access.recordOf(in, r.RemoteAddr, status)
	}
	for i, x := range in.failures {
		if i == maxFailures {
			f.log.Error().Str("request", in.id).Int("more", len(in.failures)-i).Msg("http request: further failures are left out")
			break
		}
		failed := f.log.Error()
		if status == statusGone {
			failed = f.log.Debug()
		}
		failed.Str("request", in.id).Str("errorId", x.id).AnErr("failure", x.err).Msg("http request failed")
	}
}

// maxFailures is how many failures of one request are logged: those of a bulk request tend to be all alike.
const maxFailures = 20

// requestID takes the caller's own name for the request, if it can be one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	plain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_.", c)
	}
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(c rune) bool { return !plain(c) }) {
		return newID()
	}
	return id
}

func newID() string { return strings.ToLower(rand.Text()[:16]) }

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// headerOnly keeps an answer's status and header, and forgets its body.
type headerOnly struct {
	header http.Header
	status int
}

func (w *headerOnly) Header() http.Header         { return w.header }
func (w *headerOnly) Write(b []byte) (int, error) { return len(b), nil }
func (w *headerOnly) WriteHeader(status int)      { w.status = status }
