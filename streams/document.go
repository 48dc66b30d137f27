package streams

import (
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// version is the format of the documents that this program writes, and the only one that it reads. Members
// may be added without changing it: whoever does not know them keeps them.
const version = 1

// Headers of a message that was set aside: its body is kept as it was, and what a document would say of
// itself stands here.
const (
	headerSetAside = "Jetcrew-Set-Aside" // why
	headerRev      = "Jetcrew-Rev"
	headerWriter   = "Jetcrew-Writer"
)

// document is the body of a message on a job's subject: the job, and what the protocol needs beside it.
type document struct {
	V          int      `json:"v,omitzero"`
	Rev        uint64   `json:"rev,omitzero"`        // one more on every write; the highest is the truth
	Writer     string   `json:"writer,omitzero"`     // a unique id of this write
	Origin     []string `json:"origin,omitzero"`     // the writers of the enqueue and of the requeues
	Claim      string   `json:"claim,omitzero"`      // the writer of the claim's first write
	Claims     uint64   `json:"claims,omitzero"`     // sequence of the ready message that is claimed, or was cancelled
	ClaimFirst bool     `json:"claimFirst,omitzero"` // whoever takes it writes a claim before it starts
	Shed       bool     `json:"shed,omitzero"`       // the input did not fit, and was left out
	Job        fields   `json:",embed"`
}

// fields is a job without its JSON methods, so that its members stand beside the document's.
type fields job.Job

func (d *document) job() *job.Job { return (*job.Job)(&d.Job) }

// newWriter answers a new unique id of a write. It is safe as a subject token.
func newWriter() string { return nuid.Next() }

// next is the document that follows d: a copy under the next rev and the given writer, without what belongs
// to one claim alone.
func (d *document) next(writer string) document {
	n := *d
	n.V = version
	n.Rev++
	n.Writer = writer
	n.Claim, n.Claims, n.ClaimFirst = "", 0, false
	n.Origin = slices.Clip(n.Origin)
	n.Job.History = slices.Clip(n.Job.History)
	n.Job.LeaseUntil = time.Time{}
	return n
}

// record is a document as it stands in the stream.
type record struct {
	document
	state state
	tail  string
	seq   uint64
	time  time.Time // when the store took it
	bad   error     // why it is no job, or contradicts its subject
	raw   []byte    // the body, where bad is set
}

// message is a stored message, however it was read.
type message struct {
	subject string
	header  nats.Header
	data    []byte
	seq     uint64
	time    time.Time
}

// record reads a message as a document. It never fails: what cannot be read says so in bad.
func (n names) record(m message) record {
	r := record{seq: m.seq, time: job.Millis(m.time)}
	sub, err := n.parse(m.subject)
	r.state, r.tail = sub.state, sub.tail
	if err == nil {
		if why := m.header[headerSetAside]; len(why) > 0 && r.state == stateDead {
			r.setAside(sub, m, why[0])
			return r
		}
		if r.state == stateDeleted {
			r.emptied(sub, m)
			return r
		}
		err = r.decode(sub, m.data)
	}
	if err != nil {
		r.bad, r.raw = err, m.data
		r.document = document{}
		r.place(sub)
	} else {
		r.Job.Trace = traceOf(m.header)
	}
	r.Job.UpdatedAt = r.time
	if r.Job.CreatedAt.IsZero() {
		r.Job.CreatedAt = r.time
	}
	return r
}

// place takes identity and status from the subject.
func (r *record) place(sub subject) {
	if sub.key.Queue != "" {
		r.Job.Queue = sub.key.Queue
	}
	r.Job.Space, r.Job.ID = sub.key.Space, sub.key.ID
	r.Job.Status = sub.state.status()
}

// setAside reads a message that was set aside as dead.
func (r *record) setAside(sub subject, m message, why string) {
	r.place(sub)
	r.Rev, _ = strconv.ParseUint(header(m.header, headerRev), 10, 64) // rev 0 is an honest answer to garbage
	r.Writer = header(m.header, headerWriter)
	r.Job.Error = why
	r.Job.Raw = m.data
	r.Job.UpdatedAt, r.Job.CreatedAt = r.time, r.time
}

// emptied reads what is left of a job whose record was deleted.
func (r *record) emptied(sub subject, m message) {
	r.place(sub)
	r.Job.Status = ""
	if job.Decode(m.data, &struct {
		Rev    *uint64 `json:"rev"`
		Writer *string `json:"writer"`
	}{&r.Rev, &r.Writer}) != nil {
		r.Rev, r.Writer = 0, "" // garbage: anything is newer
	}
}

// header reads a header as the server or one of ours writes its name: not all names are canonical.
func header(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	if v := h[textproto.CanonicalMIMEHeaderKey(name)]; len(v) > 0 {
		return v[0]
	}
	return ""
}

var errVersion = errors.New("unknown version")

// decode reads a document's body, fills in what its subject says, and refuses what contradicts it.
func (r *record) decode(sub subject, data []byte) error {
	d := &r.document
	if err := job.Decode(data, d); err != nil {
		return fmt.Errorf("not a job: %w", err)
	}
	if d.V != 0 && d.V != version {
		return fmt.Errorf("%w %d: this program reads version %d", errVersion, d.V, version)
	}
	j := &d.Job
	for _, f := range []struct {
		name string
		got  *string
		want string
	}{{"queue", &j.Queue, sub.key.Queue}, {"space", &j.Space, sub.key.Space}, {"id", &j.ID, sub.key.ID}} {
		switch {
		case *f.got == "" && f.want == "":
			return fmt.Errorf("%s is missing, and its subject holds only a hash of it", f.name)
		case *f.got == "":
			*f.got = f.want
		case f.want != "" && *f.got != f.want:
			return fmt.Errorf("%s %q contradicts its subject, which says %q", f.name, *f.got, f.want)
		}
	}
	if tail((*job.Job)(j).Key()) != sub.tail {
		return fmt.Errorf("queue %q contradicts its subject", j.Queue)
	}
	if want := sub.state.status(); j.Status == "" {
		j.Status = want
	} else if j.Status != want {
		return fmt.Errorf("status %q contradicts its subject, which says %q", j.Status, sub.state)
	}
	if j.Environment == "" {
		j.Environment = job.DefaultEnvironment
	}
	if j.Trigger == "" {
		j.Trigger = job.TriggerCustom
	}
	if j.MaxAttempts == 0 {
		j.MaxAttempts = job.DefaultMaxAttempts
	}
	if j.Attempts < 0 {
		return errors.New("attempts must not be negative")
	}
	if waits := sub.state == stateReady || sub.state == stateDue; waits && j.MaxAttempts > 0 && j.Attempts >= j.MaxAttempts {
		return fmt.Errorf("all %d attempts are used, it cannot wait for another", j.MaxAttempts)
	}
	return (*job.Job)(j).Validate()
}

// newest is the document that tells the truth: the highest rev, and the later one of two; what cannot be read
// counts only where there is nothing else. Nil if there is none.
func newest(recs []record) *record {
	var n *record
	for i := range recs {
		if r := &recs[i]; n == nil || r.newer(n) {
			n = r
		}
	}
	return n
}

func (r *record) newer(o *record) bool {
	if (r.bad == nil) != (o.bad == nil) {
		return r.bad == nil
	}
	return r.Rev > o.Rev || r.Rev == o.Rev && r.seq > o.seq
}

// last is the last sequence among a job's documents: what a guarded write has to name.
func last(recs []record) uint64 {
	var seq uint64
	for i := range recs {
		seq = max(seq, recs[i].seq)
	}
	return seq
}

// written finds the document that one of the given writes left.
func written(recs []record, writers ...string) *record {
	for i := range recs {
		if w := recs[i].Writer; w != "" && slices.Contains(writers, w) {
			return &recs[i]
		}
	}
	return nil
}

// older are the sequences of the documents that are older than rev, but for the one to keep.
func older(recs []record, rev, keep uint64) []uint64 {
	var out []uint64
	for i := range recs {
		if r := &recs[i]; r.Rev < rev && r.seq != keep {
			out = append(out, r.seq)
		}
	}
	return out
}
