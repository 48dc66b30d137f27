// Package doctor looks at a NATS server, and at what jetcrew keeps on it, the way an operator would who knows what goes
// wrong, and says of each thing how it is and what to do about it.
//
// It changes nothing: it makes no stream, bucket or consumer, not even for a moment, mends none, takes no job, and writes
// no message. (To learn what it may publish, it sends messages that the server has to refuse.) It looks as far as its
// user's rights allow, and says of the rest that it was not checked and why. Each check has a deadline of its own.
//
// It looks once, so what it says is true of an instant; watching a fleet is the business of metrics.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/natsenv"
	"github.com/jetcrew/jetcrew/streams"
)

// DefaultTimeout bounds a check.
const DefaultTimeout = 5 * time.Second

// Level says how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // jobs are run, and something should be looked at; also what could not be checked
	Error   Level = "error"   // jobs are not run, or are lost sooner than they should be
)

// Finding is what a check has to say. A check may have several to make, of several queues for example.
type Finding struct {
	ID     string         `json:"id"` // of the check; it stays the same from one version to the next
	Level  Level          `json:"level"`
	Text   string         `json:"text"`
	Advice string         `json:"advice,omitzero"` // what to do about it
	Facts  map[string]any `json:"facts,omitzero"`  // what was found, for programs
}

// Report is what all checks have to say, in their order.
type Report struct {
	Server    string    `json:"server"`    // that was asked
	Namespace string    `json:"namespace"` // that was looked at
	At        time.Time `json:"at"`        // by this process's clock
	Findings  []Finding `json:"findings"`
}

// Count is the number of findings of a level.
func (r *Report) Count(l Level) int {
	n := 0
	for _, f := range r.Findings {
		if f.Level == l {
			n++
		}
	}
	return n
}

// Config of a Check. The zero value works.
type Config struct {
	// Namespace as in the jobs' stream. Defaults to "jetcrew".
	Namespace string
	// Replicas that the stream and the buckets should have at least. Defaults to 1.
	Replicas int
	// Role is the role of docs/deploy.md whose rights the connection's user should have, such as "worker". Defaults to
	// none: it is said which roles the user could have.
	Role string
	// Queue and Space are those that rights are tried for. Default to "default".
	Queue, Space string
	// Monitors are the roots of servers' HTTP monitoring, such as http://127.0.0.1:8222. Default to none: what only they
	// tell is not checked.
	Monitors []string
	// Timeout bounds each check. Defaults to 5 s, 100 ms at least.
	Timeout time.Duration
	// Now is this process's clock, which is compared with the store's. Defaults to time.Now.
	Now func() time.Time
	// Logger takes what the parts that are looked at have to say. Defaults to none.
	Logger zerolog.Logger

	after *ages // set by tests
}

// ErrConfig: the Config cannot be used.
var ErrConfig = errors.New("doctor: configuration")

func (c *Config) normalize() error {
	if c.Namespace == "" {
		c.Namespace = streams.DefaultNamespace
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Queue == "" {
		c.Queue = job.DefaultQueue
	}
	if c.Space == "" {
		c.Space = job.DefaultSpace
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if !natsenv.ValidNamespace(c.Namespace) {
		return fmt.Errorf("%w: namespace %q: want %s", ErrConfig, c.Namespace, natsenv.NamespaceRule)
	}
	if c.Replicas < 1 || c.Replicas > 5 {
		return fmt.Errorf("%w: replicas: want 1 to 5, not %d", ErrConfig, c.Replicas)
	}
	if c.Role != "" && !slices.Contains(Roles(), c.Role) {
		return fmt.Errorf("%w: role: want one of %v, not %q", ErrConfig, Roles(), c.Role)
	}
	if c.Timeout < 100*time.Millisecond {
		return fmt.Errorf("%w: timeout: want at least 100ms, not %s", ErrConfig, c.Timeout)
	}
	for _, m := range c.Monitors {
		u, err := url.Parse(m)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("%w: monitor: want the http:// or https:// URL of a server's monitoring port", ErrConfig)
		}
	}
	if err := job.ValidateName("queue", c.Queue, job.MaxName); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := job.ValidateName("space", c.Space, job.MaxName); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

// Validate refuses what cannot be used, with an error that names the field.
func (c Config) Validate() error { return c.normalize() }

// exam is one Check under way.
type exam struct {
	cfg     Config
	names   names
	nc      *nats.Conn
	js      jetstream.JetStream
	nodes   nats.Options // as nc was connected
	denials *denials
	report  *Report
	id      string // of the check that is made
	silent  bool   // JetStream is off, or does not answer: nor will it answer anything else

	// What checks have found out for those after them. Nil is not known.
	account   *jetstream.AccountInfo
	streams   map[string]*jetstream.StreamInfo // nil here is known to be missing
	store     *streams.Store
	consumers []*jetstream.ConsumerInfo
	queues    []job.QueueInfo
	monitors  []monitor
}

// check is one look. Its error means that it could not be made, or not to the end.
type check struct {
	id    string
	look  func(*exam, context.Context) error
	needs func(names) []string // subjects, or what they begin with, without which it cannot be made
}

// Check looks at the server that nc is connected to. Its error means that the Config cannot be used, or that ctx has
// ended; what is wrong with the server stands in the report.
//
// While it is under way, it takes the connection's denials of permissions to itself.
func Check(ctx context.Context, nc *nats.Conn, cfg Config) (*Report, error) {
	if err := cfg.normalize(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(cfg.Timeout))
	if err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	e := &exam{
		cfg: cfg, names: names{cfg.Namespace}, nc: nc, js: js, nodes: nc.Opts,
		streams: make(map[string]*jetstream.StreamInfo),
		report:  &Report{Server: nc.ConnectedServerName(), Namespace: cfg.Namespace, At: job.Millis(cfg.Now())},
	}
	e.denials = hearDenials(nc)
	defer e.denials.stop()
	defer e.closeStore()
	for _, c := range checks {
		e.make(ctx, c)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("doctor: %w", context.Cause(ctx))
		}
	}
	return e.report, nil
}

func (e *exam) closeStore() {
	if e.store != nil {
		e.store.Close()
		e.store = nil
	}
}

// checks are all there are, in their order: later ones go by what earlier ones found.
var checks = []check{
	{"server-version", (*exam).lookAtVersions, nil},
	{"payload", (*exam).lookAtPayload, nil},
	{"inbox", (*exam).lookAtInbox, nil},
	{"jetstream", (*exam).lookAtJetStream, func(names) []string { return []string{"$JS.API.INFO"} }},
	{"account-limits", (*exam).lookAtAccount, func(names) []string { return []string{"$JS.API.INFO"} }},
	{"jobs-stream", (*exam).lookAtJobs, names.needsJobs},
	{"workers-bucket", (*exam).lookAtWorkers, needsInfo(names.workers)},
	{"kv-bucket", (*exam).lookAtKV, needsInfo(names.kv)},
	{"schedules-bucket", (*exam).lookAtSchedulesBucket, needsInfo(names.schedules)},
	{"leader-bucket", (*exam).lookAtLeaderBucket, needsInfo(names.leader)},
	{"replicas", (*exam).lookAtReplicas, nil},
	{"monitor", (*exam).lookAtMonitors, nil},
	{"durability", (*exam).lookAtDurability, nil},
	{"disk", (*exam).lookAtDisk, nil},
	{"copies", (*exam).lookAtCopies, nil},
	{"clock", (*exam).lookAtClock, needsInfo(names.jobs)},
	{"consumers", (*exam).lookAtConsumers, names.needsConsumers},
	{"queues", (*exam).lookAtQueues, names.needsQueues},
	{"stuck", (*exam).lookForStuck, names.needsReads},
	{"overdue", (*exam).lookForOverdue, names.needsReads},
	{"dead-jobs", (*exam).lookAtDead, names.needsReads},
	{"set-aside", (*exam).lookForSetAside, names.needsReads},
	{"leader", (*exam).lookAtLeader, names.needsLeader},
	{"schedules", (*exam).lookAtSchedules, names.needsSchedules},
	{"permissions", (*exam).lookAtPermissions, nil},
}

// make makes one check within its deadline, and says so where it could not.
func (e *exam) make(ctx context.Context, c check) {
	e.id = c.id
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	var needs []string
	if c.id != "inbox" { // that check finds out itself
		needs = append(needs, e.inbox())
	}
	if c.needs != nil {
		needs = append(needs, c.needs(e.names)...)
	}
	ctx, done := e.denials.guard(ctx, needs)
	defer done()
	err := ctx.Err()
	switch {
	case err != nil:
	case e.silent && c.needs != nil:
		err = errUnknown
	default:
		err = c.look(e, ctx)
	}
	var denied *PermissionError
	switch {
	case err == nil:
	case errors.As(context.Cause(ctx), &denied):
		e.unchecked(fmt.Sprintf("no permission for %s to %q", denied.Operation, denied.Subject),
			"ask as a user with this right (docs/deploy.md lists the roles), or grant it",
			map[string]any{"operation": denied.Operation, "subject": denied.Subject})
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		e.silent = e.silent || c.id == "jetstream"
		e.unanswered(fmt.Sprintf("no answer within %s", e.cfg.Timeout), "see that the server and its cluster are up, or give it more time (--timeout)")
	case errors.Is(err, errUnknown):
		e.unchecked(err.Error(), "mend what is reported above first", nil)
	default:
		e.unanswered(err.Error(), "see that the server and its cluster are up, and what the server's log says")
	}
}

// vital are the checks that stand for whether jobs are run at all: without an answer to them, none is.
var vital = []string{"jetstream", "jobs-stream"}

// unanswered tells of a check that the server did not answer. To lack a right, which is told of as unchecked, is no defect.
func (e *exam) unanswered(why, advice string) {
	level := Warning
	if slices.Contains(vital, e.id) {
		level = Error
	}
	e.find(level, "not checked: "+why, advice, map[string]any{"checked": false})
}

// errUnknown: an earlier check did not find out what this one goes by.
var errUnknown = errors.New("it goes by what could not be found out above")

func (e *exam) ok(text string, facts map[string]any) { e.find(OK, text, "", facts) }

func (e *exam) warn(text, advice string, facts map[string]any) { e.find(Warning, text, advice, facts) }

func (e *exam) fail(text, advice string, facts map[string]any) { e.find(Error, text, advice, facts) }

func (e *exam) unchecked(why, advice string, facts map[string]any) {
	if facts == nil {
		facts = make(map[string]any)
	}
	facts["checked"] = false
	e.find(Warning, "not checked: "+why, advice, facts)
}

func (e *exam) find(l Level, text, advice string, facts map[string]any) {
	e.report.Findings = append(e.report.Findings, Finding{e.id, l, text, advice, facts})
}

// found reports whether the check that is being made has found anything yet.
func (e *exam) found() bool {
	n := len(e.report.Findings)
	return n > 0 && e.report.Findings[n-1].ID == e.id
}
