package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/streams"
)

// roles are those of docs/nats/accounts.conf, with what each has to be allowed: what it publishes to, and with a leading
// "<" what it subscribes to. Q, S and T stand for the queue's and the space's token and for one that nobody has, N for
// the namespace, and J, W, K, H and L for its streams. Events and hints are not among them: to try those, one would have
// to send some. Nor is the key/value store, which only handlers need that use it.
var roles = []struct {
	name  string
	needs []string
}{
	{"worker", []string{
		"$JS.API.INFO", "$JS.API.STREAM.INFO.J", "$JS.API.STREAM.INFO.W", "$JS.API.CONSUMER.INFO.J.ready-Q",
		"$JS.API.CONSUMER.INFO.J.wake-Q", "$JS.API.CONSUMER.MSG.NEXT.J.ready-Q", "$JS.API.CONSUMER.MSG.NEXT.J.wake-Q",
		"$JS.API.DIRECT.GET.J", "$JS.API.DIRECT.GET.W.$KV.W.T.Q", "$JS.API.STREAM.MSG.GET.J", "$JS.API.STREAM.MSG.DELETE.J",
		"$JS.ACK.J.ready-Q.T", "$JS.ACK.J.wake-Q.T", "$KV.W.T.Q",
		"N.job.ready.Q.S.T", "N.job.due.Q.S.T", "N.job.running.Q.S.T", "N.job.succeeded.Q.S.T", "N.job.failed.Q.S.T",
		"N.job.dead.Q.S.T", "N.job.cancelled.Q.S.T", "N.alarm.Q.S.T.T",
		"<N.control.cancel.Q.>", "<N.control.queue.*",
	}},
	{"scheduler", []string{
		"$JS.API.INFO", "$JS.API.STREAM.INFO.J", "$JS.API.STREAM.INFO.W", "$JS.API.STREAM.INFO.L", "$JS.API.CONSUMER.LIST.J",
		"$JS.API.CONSUMER.INFO.J.ready-Q", "$JS.API.DIRECT.GET.J", "$JS.API.DIRECT.GET.W", "$JS.API.DIRECT.GET.L.$KV.L.leader",
		"$JS.API.CONSUMER.CREATE.L.T.$KV.L.leader", "$JS.API.STREAM.MSG.GET.J", "$JS.API.STREAM.MSG.DELETE.J", "$KV.L.leader",
		"$JS.API.STREAM.INFO.H", "$JS.API.DIRECT.GET.H.$KV.H.S.T", "$JS.API.CONSUMER.CREATE.H.T.$KV.H.S.T", "$KV.H.S.T",
		"N.job.ready.Q.S.T", "N.job.due.Q.S.T", "N.job.dead.Q.S.T", "N.alarm.Q.S.T.T", "<N.control.queue.*",
	}},
	{"api", []string{
		"$JS.API.INFO", "$JS.API.STREAM.INFO.J", "$JS.API.STREAM.INFO.W", "$JS.API.CONSUMER.LIST.J", "$JS.API.CONSUMER.INFO.J.ready-Q",
		"$JS.API.DIRECT.GET.J", "$JS.API.DIRECT.GET.W", "$JS.API.STREAM.MSG.GET.J",
		"N.job.ready.Q.S.T", "N.job.due.Q.S.T", "N.alarm.Q.S.T.T", "<N.event.>", "<N.control.queue.*",
	}},
	{"operator", []string{
		"$JS.API.INFO", "$JS.API.STREAM.INFO.J", "$JS.API.STREAM.INFO.W", "$JS.API.CONSUMER.LIST.J", "$JS.API.CONSUMER.INFO.J.ready-Q",
		"$JS.API.CONSUMER.CREATE.J.ready-T.N.job.ready.T.>", "$JS.API.CONSUMER.PAUSE.J.ready-T", "$JS.API.CONSUMER.DELETE.J.ready-T",
		"$JS.API.DIRECT.GET.J", "$JS.API.DIRECT.GET.W", "$JS.API.STREAM.MSG.GET.J", "$JS.API.STREAM.MSG.DELETE.J",
		"$JS.API.STREAM.INFO.H", "$JS.API.DIRECT.GET.H.$KV.H.S.T", "$JS.API.CONSUMER.CREATE.H.T.$KV.H.S.T", "$KV.H.S.T",
		"$JS.API.STREAM.INFO.L", "$JS.API.DIRECT.GET.L.$KV.L.leader",
		"N.job.ready.Q.S.T", "N.job.running.Q.S.T", "N.job.cancelled.Q.S.T", "N.job.deleted.Q.S.T", "N.alarm.Q.S.T.T",
		"<N.event.>", "<N.control.queue.*",
	}},
	{"producer", []string{
		"$JS.API.INFO", "$JS.API.STREAM.INFO.J", "$JS.API.STREAM.INFO.W", "$JS.API.CONSUMER.INFO.J.ready-Q", "$JS.API.DIRECT.GET.J",
		"$JS.API.STREAM.MSG.GET.J", "N.job.ready.Q.S.T", "N.job.due.Q.S.T", "N.alarm.Q.S.T.T", "<N.event.*.*.S.>", "<N.control.queue.*",
	}},
	{"readonly", []string{
		"$JS.API.INFO", "$JS.API.STREAM.INFO.J", "$JS.API.STREAM.INFO.W", "$JS.API.STREAM.INFO.K", "$JS.API.STREAM.INFO.H",
		"$JS.API.STREAM.INFO.L", "$JS.API.CONSUMER.LIST.J", "$JS.API.CONSUMER.INFO.J.ready-Q", "$JS.API.DIRECT.GET.J",
		"$JS.API.DIRECT.GET.W", "$JS.API.DIRECT.GET.H", "$JS.API.DIRECT.GET.L.$KV.L.leader", "$JS.API.STREAM.MSG.GET.J",
		"<N.event.>", "<N.control.queue.*",
	}},
}

// Roles are the roles whose rights can be looked at.
func Roles() []string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = r.name
	}
	return names
}

// nobody is a token that no queue, space, id or worker has; nobodysStream is a stream that nobody has.
const (
	nobody        = "=-doctor"
	nobodysStream = "JETCREW_DOCTOR_TRIES_A_PERMISSION"
)

// lookAtPermissions tries what a role needs, or tells which roles this user can have.
func (e *exam) lookAtPermissions(ctx context.Context) error {
	if e.account == nil {
		return errUnknown
	}
	// What the store is denied meanwhile would hide what is tried here.
	e.closeStore()
	allowed := make(map[string]bool) // by subject: roles have many in common
	var fits []string
	for _, r := range roles {
		if e.cfg.Role != "" && r.name != e.cfg.Role {
			continue
		}
		var lacks []string
		for _, n := range r.needs {
			may, known := allowed[n]
			if !known {
				var err error
				if may, err = e.try(ctx, n); err != nil {
					return err
				}
				allowed[n] = may
			}
			if !may {
				lacks = append(lacks, e.spell(n))
			}
		}
		if len(lacks) == 0 {
			fits = append(fits, r.name)
		} else if e.cfg.Role != "" {
			for _, s := range lacks {
				how, subject := "publish to", s
				if rest, ok := strings.CutPrefix(s, "<"); ok {
					how, subject = "subscribe to", rest
				}
				e.fail(fmt.Sprintf("this user may not %s %q, which role %s needs", how, subject, r.name),
					"grant it: docs/nats/accounts.conf lists what the role has", map[string]any{"role": r.name, "operation": how, "subject": subject})
			}
		}
	}
	facts := map[string]any{"roles": fits}
	switch {
	case e.cfg.Role != "" && len(fits) > 0:
		e.ok("this user has what role "+e.cfg.Role+" needs", facts)
	case e.cfg.Role == "" && len(fits) > 0:
		e.ok("this user has what these roles need: "+strings.Join(fits, ", "), facts)
	case e.cfg.Role == "":
		e.warn("this user has not all that any role needs", "name the role that it should have (--role worker), and what is missing is told", facts)
	}
	return nil
}

// spell writes a need with the names of this namespace.
func (e *exam) spell(need string) string {
	how := ""
	if rest, ok := strings.CutPrefix(need, "<"); ok {
		how, need = "<", rest
	}
	names := map[string]string{
		"J": e.names.jobs(), "W": e.names.workers(), "K": e.names.kv(), "H": e.names.schedules(), "L": e.names.leader(),
		"N": e.names.ns, "S": streams.Token(e.cfg.Space), "T": nobody,
	}
	queue := streams.QueueToken(e.cfg.Queue)
	tokens := strings.Split(need, ".")
	for i, t := range tokens {
		if name, ok := names[t]; ok {
			if i > 0 && tokens[i-1] == "$KV" {
				name = strings.TrimPrefix(name, "KV_") // the bucket
			}
			tokens[i] = name
			continue
		}
		switch t {
		case "Q":
			tokens[i] = queue
		case "ready-Q", "wake-Q":
			tokens[i] = strings.TrimSuffix(t, "Q") + queue
		case "ready-T":
			tokens[i] = "ready-" + nobody
		}
	}
	return how + strings.Join(tokens, ".")
}

// try does what a need is for, in such a way that nothing comes of it, and reports whether the server let it through.
// It says no beside the connection's other answers, so a flush has it come before.
func (e *exam) try(ctx context.Context, need string) (bool, error) {
	subject := e.spell(need)
	if rest, ok := strings.CutPrefix(subject, "<"); ok {
		sub, err := e.nc.SubscribeSync(rest)
		if err != nil {
			return false, err
		}
		defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
		return e.passed(ctx, rest)
	}
	if err := e.nc.PublishMsg(harmless(subject, e.nc.NewInbox())); err != nil {
		return false, err
	}
	return e.passed(ctx, subject)
}

func (e *exam) passed(ctx context.Context, subject string) (bool, error) {
	if err := e.nc.FlushWithContext(ctx); err != nil {
		return false, err
	}
	return !e.wasDenied(subject), nil
}

// harmless is a message that the server refuses, or that reaches nobody, once it has passed the permissions.
func harmless(subject, reply string) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Reply = reply
	t := strings.Split(subject, ".")
	switch {
	case strings.HasPrefix(subject, "$JS.API.") && (slices.Contains(t, "INFO") || slices.Contains(t, "LIST")):
		// It only asks.
	case slices.Contains(t, "NEXT"), slices.Contains(t, "DELETE") && slices.Contains(t, "CONSUMER"):
		m.Data = []byte(`{"this is no request":`) // refused before anything is looked at
	case slices.Contains(t, "CREATE"):
		m.Data = fmt.Appendf(nil, `{"stream_name":%q}`, nobodysStream) // which is not the subject's
	case strings.HasPrefix(subject, "$JS.API."):
		// What is asked for without a word is refused, or nobody has it.
	case strings.HasPrefix(subject, "$JS.ACK."):
		// It has too few tokens to be an acknowledgement.
	default:
		m.Header.Set(jetstream.ExpectedStreamHeader, nobodysStream)
	}
	return m
}
