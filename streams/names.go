package streams

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// state is the token of a job's subject that says where the job is.
type state string

const (
	stateReady     state = "ready"
	stateDue       state = "due"
	stateRunning   state = "running"
	stateSucceeded state = "succeeded"
	stateFailed    state = "failed"
	stateDead      state = "dead"
	stateCancelled state = "cancelled"
	// A record that an operator deleted leaves an empty document for a while: it keeps what a crash brings back of the
	// job from being run again. To all who ask, the job is not there.
	stateDeleted state = "deleted"
)

// States are all states, in the order of a job's life.
var states = [...]state{
	stateReady, stateDue, stateRunning, stateSucceeded, stateFailed, stateDead, stateCancelled, stateDeleted,
}

func (s state) valid() bool {
	for _, v := range states {
		if s == v {
			return true
		}
	}
	return false
}

// terminal reports whether a document of this state is an end that a job came to.
func (s state) terminal() bool {
	return s == stateSucceeded || s == stateFailed || s == stateDead || s == stateCancelled
}

// status is what the document of a job in this state says.
func (s state) status() job.Status {
	switch s {
	case stateReady, stateDue:
		return job.Pending
	default:
		return job.Status(s)
	}
}

// maxQueueToken is how many bytes of an escaped queue stand in subjects and consumer names; a consumer's
// name holds 255. Longer ones are hashed.
const maxQueueToken = 200

// hashMark begins the token of a hashed queue: no escaped name begins so, since '=' is always followed by
// two hexadecimal digits.
const hashMark = "=-"

// escape writes s as one subject token that stays readable: letters, digits, '-' and '_' stand for
// themselves, any other byte is =XX. It is reversible, and keeps distinct strings distinct.
func escape(s string) string {
	n := 0
	for i := 0; i < len(s); i++ {
		if !plain(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+2*n)
	for i := 0; i < len(s); i++ {
		if c := s[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '=', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}

var errToken = errors.New("not a token as jetcrew writes it")

// unescape reverses escape. It takes only what escape writes, so that one name has one token.
func unescape(t string) (string, error) {
	if t == "" {
		return "", errToken
	}
	b := make([]byte, 0, len(t))
	for i := 0; i < len(t); i++ {
		c := t[i]
		if c == '=' {
			if i+2 >= len(t) {
				return "", errToken
			}
			hi, lo := unhex(t[i+1]), unhex(t[i+2])
			if hi < 0 || lo < 0 {
				return "", errToken
			}
			c = byte(hi<<4 | lo)
			if plain(c) {
				return "", errToken
			}
			i += 2
		} else if !plain(c) {
			return "", errToken
		}
		b = append(b, c)
	}
	if !utf8.Valid(b) {
		return "", errToken
	}
	return string(b), nil
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// queueToken is the token of a queue: escaped, or a hash of it where that would be too long.
func queueToken(queue string) string {
	t := escape(queue)
	if len(t) <= maxQueueToken {
		return t
	}
	sum := sha256.Sum256([]byte(queue))
	return hashMark + hex.EncodeToString(sum[:16])
}

// Token is a space or an id as it stands in subjects.
func Token(name string) string { return escape(name) }

// QueueToken is a queue as it stands in subjects and in its consumers' names.
func QueueToken(queue string) string { return queueToken(queue) }

// names builds every subject and name of one namespace. Nothing else does.
type names struct{ ns string }

func (n names) stream() string        { return strings.ToUpper(n.ns) + "_JOBS" }
func (n names) workersBucket() string { return strings.ToUpper(n.ns) + "_WORKERS" }
func (n names) streamSubjects() []string {
	return []string{n.ns + ".job.>", n.ns + ".alarm.>", n.ns + ".wake.>"}
}

// tail is what the subjects of one job have in common.
func tail(k job.Key) string {
	return queueToken(k.Queue) + "." + escape(k.Space) + "." + escape(k.ID)
}

func (n names) job(s state, tail string) string   { return n.ns + ".job." + string(s) + "." + tail }
func (n names) alarm(tail, writer string) string  { return n.ns + ".alarm." + tail + "." + writer }
func (n names) wake(tail string) string           { return n.ns + ".wake." + tail }
func (n names) event(s state, tail string) string { return n.ns + ".event." + string(s) + "." + tail }
func (n names) cancelHint(tail string) string     { return n.ns + ".control.cancel." + tail }
func (n names) cancelHints(queue string) string {
	return n.ns + ".control.cancel." + queueToken(queue) + ".>"
}

func (n names) readyFilter(queue string) string { return n.job(stateReady, queueToken(queue)+".>") }

func (n names) wakeFilter(queue string) string    { return n.ns + ".wake." + queueToken(queue) + ".>" }
func (n names) readyConsumer(queue string) string { return "ready-" + queueToken(queue) }
func (n names) wakeConsumer(queue string) string  { return "wake-" + queueToken(queue) }
func (n names) stateFilter(s state) string        { return n.job(s, ">") }

// filter matches every document of one job. Every writer spells it so, byte for byte: in a cluster the
// server keys its guards in flight by this very string.
func (n names) filter(tail string) string { return n.ns + ".job.*." + tail }

// events matches what is told of one job; its queue may be unknown.
func (n names) events(k job.Key) string {
	queue := "*"
	if k.Queue != "" {
		queue = queueToken(k.Queue)
	}
	return n.ns + ".event.*." + queue + "." + escape(k.Space) + "." + escape(k.ID)
}

// eventState is the state that an event's subject tells of.
func (n names) eventState(subject string) (state, bool) {
	rest, ok := strings.CutPrefix(subject, n.ns+".event.")
	st, _, _ := strings.Cut(rest, ".")
	return state(st), ok
}

// anyQueue matches every document of a job whose queue the caller does not know.
func (n names) anyQueue(space, id string) string {
	return n.ns + ".job.*.*." + escape(space) + "." + escape(id)
}

// subject is what the subject of a document says.
type subject struct {
	state state
	tail  string  // as it stands in the subject
	key   job.Key // Queue is empty where the token is a hash
}

// parse takes a job's subject apart. The error says why it is not one that jetcrew writes; state and tail are
// then set as far as they could be read.
func (n names) parse(s string) (subject, error) {
	rest, ok := strings.CutPrefix(s, n.ns+".job.")
	if !ok {
		return subject{}, fmt.Errorf("subject %q is not under %s.job", s, n.ns)
	}
	st, tail, ok := strings.Cut(rest, ".")
	out := subject{state: state(st), tail: tail}
	if !ok || !out.state.valid() {
		return out, fmt.Errorf("subject %q has no state that jetcrew knows", s)
	}
	var err error
	out.key, err = parseTail(tail)
	if err != nil {
		return out, fmt.Errorf("subject %q: %w", s, err)
	}
	return out, nil
}

// parseTail reads <queue>.<space>.<id>.
func parseTail(tail string) (job.Key, error) {
	t := strings.Split(tail, ".")
	if len(t) != 3 {
		return job.Key{}, fmt.Errorf("has %d tokens for queue, space and id, want 3", len(t))
	}
	var k job.Key
	var err error
	if !strings.HasPrefix(t[0], hashMark) {
		if k.Queue, err = unescape(t[0]); err != nil {
			return job.Key{}, fmt.Errorf("queue %q: %w", t[0], err)
		}
		if queueToken(k.Queue) != t[0] {
			return job.Key{}, fmt.Errorf("queue %q: %w", t[0], errToken)
		}
	}
	if k.Space, err = unescape(t[1]); err != nil {
		return job.Key{}, fmt.Errorf("space %q: %w", t[1], err)
	}
	if k.ID, err = unescape(t[2]); err != nil {
		return job.Key{}, fmt.Errorf("id %q: %w", t[2], err)
	}
	if n := max(len(k.Queue), len(k.Space), len(k.ID)); n > job.MaxName {
		return job.Key{}, fmt.Errorf("has a name of %d bytes, at most %d are allowed", n, job.MaxName)
	}
	return k, nil
}
