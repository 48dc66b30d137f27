package client

import (
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// subjects knows which denials concern a call, by the subjects of docs/wire-format.md.
type subjects struct {
	namespace string
	stream    string
	inbox     string // what the subjects begin with that answers come to
}

func newSubjects(nc *nats.Conn, namespace string) subjects {
	if namespace == "" {
		namespace = streams.DefaultNamespace
	}
	inbox := nc.Opts.InboxPrefix
	if inbox == "" {
		inbox = strings.TrimSuffix(nats.InboxPrefix, ".")
	}
	return subjects{namespace, strings.ToUpper(namespace) + "_JOBS", inbox + "."}
}

// opening: all that is asked for while a store is opened is needed.
func (s subjects) opening(p *PermissionError) bool {
	return s.answers(p) || strings.HasPrefix(p.Subject, "$JS.API.")
}

// reading: what it takes to read a record.
func (s subjects) reading(p *PermissionError) bool {
	return s.answers(p) || p.Subject == "$JS.API.DIRECT.GET."+s.stream || p.Subject == "$JS.API.STREAM.MSG.GET."+s.stream
}

// looking: what it takes to see how many jobs, queues and workers there are.
func (s subjects) looking(p *PermissionError) bool {
	t := strings.Split(p.Subject, ".")
	return s.reading(p) || p.Subject == "$JS.API.STREAM.INFO."+s.stream ||
		strings.HasPrefix(p.Subject, "$JS.API.CONSUMER.") && slices.Contains(t, s.stream) ||
		strings.HasPrefix(p.Subject, "$JS.API.") && slices.Contains(t, s.workers())
}

// managing: what it takes to look at a queue and to set it.
func (s subjects) managing(queue string) func(*PermissionError) bool {
	return func(p *PermissionError) bool {
		of := s.consumerQueue(p)
		return s.looking(p) && (of == "" || of == streams.QueueToken(queue))
	}
}

// consumerQueue is the token of the queue whose consumer was asked for, if one was.
func (s subjects) consumerQueue(p *PermissionError) string {
	t := strings.Split(p.Subject, ".")
	at := slices.Index(t, s.stream) + 1
	if !strings.HasPrefix(p.Subject, "$JS.API.CONSUMER.") || at == 0 || at == len(t) {
		return ""
	}
	kind, queue, _ := strings.Cut(t[at], "-")
	if kind != "ready" && kind != "wake" {
		return ""
	}
	return queue
}

// workers is the stream of what workers say of themselves.
func (s subjects) workers() string { return "KV_" + strings.TrimSuffix(s.stream, "_JOBS") + "_WORKERS" }

// event is the subject on which changes of jobs are told; * or what is named, unescaped, in each place.
func (s subjects) event(state, queue, space, id string) string {
	if queue != "*" {
		queue = streams.QueueToken(queue)
	}
	return strings.Join([]string{s.namespace, "event", state, queue, anyOr(space), anyOr(id)}, ".")
}

func anyOr(name string) string {
	if name == "*" {
		return name
	}
	return streams.Token(name)
}

// answers: without them, nothing works.
func (s subjects) answers(p *PermissionError) bool { return strings.HasPrefix(p.Subject, s.inbox) }

// late is the denial of a job's alarm, if there was one: the job is stored, and would start late without a word.
func (s subjects) late(p *PermissionError) error {
	if p == nil || !strings.HasPrefix(p.Subject, s.namespace+".alarm.") {
		return nil
	}
	return &deniedError{p, true}
}

// concern is what a denial has to do with jobs that are put in.
type concern struct {
	all   bool
	queue string // its token; with space and id the job's, otherwise all of the queue
	space string
	id    string
}

// writing answers what a denial concerns: a job whose document or alarm may not be written, a queue that may not
// be looked at, or all. The zero value is none.
func (s subjects) writing(p *PermissionError) concern {
	t := strings.Split(p.Subject, ".")
	switch {
	case s.reading(p):
		return concern{all: true}
	case len(t) == 6 && t[0] == s.namespace && t[1] == "job":
		return concern{queue: t[3], space: unescape(t[4]), id: unescape(t[5])}
	case len(t) == 6 && t[0] == s.namespace && t[1] == "alarm":
		return concern{queue: t[2], space: unescape(t[3]), id: unescape(t[4])}
	}
	return concern{queue: s.consumerQueue(p)}
}

// steering answers what a denial concerns when an operation is done to jobs.
func (s subjects) steering(op job.Operation, p *PermissionError) concern {
	if p.Subject == "$JS.API.STREAM.MSG.DELETE."+s.stream {
		return concern{all: true}
	}
	t := strings.Split(p.Subject, ".")
	if len(t) > 2 && t[0] == s.namespace && t[1] == "job" && !slices.Contains(written(op), t[2]) {
		return concern{} // of a call that does something else
	}
	return s.writing(p)
}

// written are the states into which an operation writes.
func written(op job.Operation) []string {
	switch op {
	case job.OpCancel:
		return []string{"cancelled", "running"}
	case job.OpDelete:
		return []string{"deleted"}
	default:
		return []string{"ready"}
	}
}

func (c concern) has(k job.Key) bool {
	switch {
	case c.all:
		return true
	case c.queue == "" || c.id != "" && (c.space != k.Space || c.id != k.ID):
		return false
	}
	// A queue of a long name has a hash for a token: it is taken for its own.
	return unescape(c.queue) == k.Queue || strings.HasPrefix(c.queue, "=-") && len(k.Queue) > len(c.queue)
}

// touches reports whether a job is concerned, whose queue may not be known.
func (c concern) touches(k job.Key) bool {
	if k.Queue == "" && c.id != "" {
		return c.space == k.Space && c.id == k.ID
	}
	return c.has(k)
}

// among reports whether jobs are concerned that a filter may mean.
func (c concern) among(f *job.Filter) bool {
	switch {
	case c.all:
		return true
	case c.queue == "" || f.Queue != "" && c.queue != streams.QueueToken(f.Queue):
		return false
	}
	return c.id == "" || f.AllSpaces || slices.Contains(f.Spaces, c.space)
}

// unescape reads a token of a subject, in which =XX is a byte.
func unescape(token string) string {
	text, err := url.PathUnescape(strings.ReplaceAll(token, "=", "%"))
	if err != nil {
		return token
	}
	return text
}
