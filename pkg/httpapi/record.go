package httpapi

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/redact"
)

const (
	// recordsFor is how long records are kept.
	recordsFor = 7 * 24 * time.Hour
	// maxRefusals is how many are kept of callers with a token, and as many of those without: these cannot push out those.
	maxRefusals = 300
	// maxFailuresKept is how many failures are kept whose ids begin alike; there are 32 characters.
	maxFailuresKept = 30
	// maxWaiting is how many records of a kind wait for being stored. What is beyond is in the log alone.
	maxWaiting = 200
	// flushEvery is how often they are stored.
	flushEvery = 2 * time.Second
	// flushTimeout bounds one storing.
	flushTimeout = 5 * time.Second
	// closeTimeout bounds the last one.
	closeTimeout = 3 * time.Second
	// usedEvery is how often it is stored when tokens were used.
	usedEvery = time.Minute
	// maxFailureText is how much of a failure is kept, in bytes.
	maxFailureText = 1000
)

// ErrNoRecord: there is no record of that id.
var ErrNoRecord = errors.New("there is no such record")

// Refusal is a record of requests that were refused before they ran, and for the same reason: those that one token, or
// anybody without one, made of an operation within a minute, or an hour.
type Refusal struct {
	Token     string    `json:"token,omitzero" doc:"The name of the token, also of one that has expired or was revoked; left out: none that is known."`
	From      string    `json:"from,omitzero" doc:"Without a token: where the last one came from."`
	Operation string    `json:"operation,omitzero" doc:"Left out: there is none at that path."`
	Space     string    `json:"space,omitzero"`
	Status    int       `json:"status"`
	Code      Code      `json:"code"`
	Detail    string    `json:"detail,omitzero"`
	Count     int       `json:"count" doc:"How many there were."`
	FirstAt   time.Time `json:"firstAt"`
	LastAt    time.Time `json:"lastAt"`
	Request   string    `json:"request" doc:"The X-Request-Id of the last one."`
}

// Failure is what a caller was not shown, and got the id of instead.
type Failure struct {
	ErrorID   string    `json:"errorId"`
	At        time.Time `json:"at"`
	Token     string    `json:"token,omitzero"`
	Operation string    `json:"operation,omitzero"`
	Space     string    `json:"space,omitzero"`
	Status    int       `json:"status"`
	Code      Code      `json:"code,omitzero"`
	Request   string    `json:"request" doc:"Its X-Request-Id."`
	Error     string    `json:"error" doc:"What went wrong, without the secrets in it."`
}

// refusalKey is what requests have in common that share a record.
type refusalKey struct {
	token, operation, space string
	status                  int
	code                    Code
	detail                  string
	period                  int64
}

func (r *Refusal) key() refusalKey {
	per := time.Minute
	if r.Token == "" {
		per = time.Hour
	}
	return refusalKey{r.Token, r.Operation, r.Space, r.Status, r.Code, r.Detail, r.FirstAt.UnixNano() / int64(per)}
}

// add takes in a later record of the same key.
func (r *Refusal) add(later Refusal) {
	r.Count += later.Count
	if !later.LastAt.Before(r.LastAt) {
		r.LastAt, r.Request, r.From = later.LastAt, later.Request, later.From
	}
}

// The two sets of refusals, by the keys under which they are stored.
const (
	ofTokens = "refusals/tokens"
	ofOthers = "refusals/others"
)

// recorder gathers records until they are stored, so that many requests are few writes.
type recorder struct {
	mu       sync.Mutex
	running  bool
	refusals map[string]map[refusalKey]*Refusal // by set
	failures []Failure
	used     map[string]time.Time
	usedAt   time.Time // when it was stored last
	troubled bool      // the last storing failed; the storing goroutine's
}

// refused keeps a record of a refusal.
func (a *Access) refused(r Refusal) {
	r.FirstAt = a.now().Truncate(time.Millisecond)
	r.LastAt, r.Count = r.FirstAt, 1
	set := ofTokens
	if r.Token == "" {
		// What nobody is known to have asked for is counted by what it was refused for: there is no end of names.
		set, r.Space = ofOthers, ""
	}
	a.record.mu.Lock()
	defer a.record.mu.Unlock()
	a.record.refuse(set, r)
	a.startRecording()
}

// refuse has the lock.
func (rec *recorder) refuse(set string, r Refusal) {
	if rec.refusals == nil {
		rec.refusals = make(map[string]map[refusalKey]*Refusal)
	}
	rows := rec.refusals[set]
	if rows == nil {
		rows = make(map[refusalKey]*Refusal)
		rec.refusals[set] = rows
	}
	key := r.key()
	switch row := rows[key]; {
	case row != nil:
		row.add(r)
	case len(rows) < maxWaiting:
		rows[key] = &r
	}
}

// failed keeps the record of a failure.
func (a *Access) failed(f Failure) {
	f.At = a.now().Truncate(time.Millisecond)
	f.Error = redact.Text(f.Error)
	if len(f.Error) > maxFailureText {
		f.Error = cutTo(f.Error, maxFailureText) + "..."
	}
	a.record.mu.Lock()
	defer a.record.mu.Unlock()
	if len(a.record.failures) < maxWaiting {
		a.record.failures = append(a.record.failures, f)
	}
	a.startRecording()
}

// usedToken notes that a stored token was used.
func (a *Access) usedToken(name string) {
	a.record.mu.Lock()
	defer a.record.mu.Unlock()
	if a.record.used == nil {
		a.record.used = make(map[string]time.Time)
	}
	a.record.used[name] = a.now().Truncate(time.Millisecond)
	a.startRecording()
}

// startRecording has the lock. The goroutine is there only where there is something to record.
func (a *Access) startRecording() {
	if a.record.running || a.ctx.Err() != nil {
		return
	}
	a.record.running = true
	a.wg.Go(func() {
		tick := time.NewTicker(a.cfg.flushEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				a.flush(a.ctx, flushTimeout, false)
			case <-a.ctx.Done():
				a.flush(context.WithoutCancel(a.ctx), closeTimeout, true)
				return
			}
		}
	})
}

// flush stores what is gathered. What cannot be stored waits on; where it is not known whether it was, requests may be
// counted twice.
func (a *Access) flush(ctx context.Context, timeout time.Duration, last bool) {
	rec := &a.record
	rec.mu.Lock()
	refusals, failures := rec.refusals, rec.failures
	rec.refusals, rec.failures = nil, nil
	var used map[string]time.Time
	if last || time.Since(rec.usedAt) >= usedEvery {
		used, rec.used, rec.usedAt = rec.used, nil, time.Now()
	}
	rec.mu.Unlock()
	if len(refusals)+len(failures)+len(used) == 0 {
		return
	}
	err := errDisconnected
	if a.cfg.Connected() {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err = a.keep(ctx, &refusals, &failures, used)
	}
	if err != nil {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.putBack(refusals, failures, used)
	}
	switch { // an outage is logged when it begins
	case err != nil && !rec.troubled && !errors.Is(err, ErrNoStore):
		a.cfg.Logger.Warn().Err(err).Msg("records of refused requests cannot be stored, and are kept for later, as far as they are not too many")
	case err == nil && rec.troubled:
		a.cfg.Logger.Info().Msg("records of refused requests are stored again")
	}
	rec.troubled = err != nil
}

// putBack has the lock.
func (rec *recorder) putBack(refusals map[string]map[refusalKey]*Refusal, failures []Failure, used map[string]time.Time) {
	newer := rec.refusals
	rec.refusals = refusals
	for set, rows := range newer {
		for _, r := range rows {
			rec.refuse(set, *r)
		}
	}
	rec.failures = append(failures, rec.failures...)
	if len(rec.failures) > maxWaiting {
		rec.failures = rec.failures[:maxWaiting]
	}
	if used != nil {
		maps.Copy(used, rec.used)
		rec.used = used
	}
}

// recordOf is the record of a request that is over, as it concerns the operator.
func (a *Access) recordOf(in *info, from string, status int) {
	if a == nil || in.code == "" && len(in.failures) == 0 {
		return
	}
	token := in.claimed
	if in.caller != nil {
		token = in.caller.name
	}
	space := in.space
	if space == "" && in.request != nil { // it was not looked at yet
		space = in.request.PathValue("space")
	}
	space = cutTo(space, job.MaxName)
	if in.refused(status) {
		r := Refusal{Token: token, Operation: in.operation, Space: space, Status: status, Code: in.code, Detail: in.detail, Request: in.id}
		if token == "" {
			r.From = from
		}
		a.refused(r)
	}
	for i, x := range in.failures {
		if i == maxFailures {
			break
		}
		a.failed(Failure{
			ErrorID: x.id, Token: token, Operation: in.operation, Space: space, Status: status, Code: in.code, Request: in.id, Error: x.err.Error(),
		})
	}
}
