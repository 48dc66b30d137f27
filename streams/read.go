package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const apiPrefix = "$JS.API."

// reader makes direct gets over one inbox of its own. (jetstreamext's batch get subscribes anew for every
// call and drops what the last message of a batch says: the sequence that the answer is true for, and
// whether it was cut short. Both decide here whether a job is gone.)
type reader struct {
	nc     *nats.Conn
	stream string
	inbox  string
	sub    *nats.Subscription
	next   atomic.Uint64
	mu     sync.Mutex
	calls  map[string]*call
}

// call is one direct get that waits for its answers.
type call struct {
	msgs   []message
	single bool // one message is the whole answer
	done   chan struct{}
	err    error
	end    nats.Header
}

// errTooMany: the filters match more than the server hands out at once.
var errTooMany = errors.New("too many results for one direct get")

func newReader(nc *nats.Conn, stream string) (*reader, error) {
	r := &reader{nc: nc, stream: stream, inbox: nc.NewInbox(), calls: make(map[string]*call)}
	var err error
	if r.sub, err = nc.Subscribe(r.inbox+".*", r.receive); err != nil {
		return nil, err
	}
	// One answer may be large; the limit that counts is how much a call asks for.
	if err := r.sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *reader) close() { _ = r.sub.Unsubscribe() } // fails only when the connection is closed already

func (r *reader) receive(m *nats.Msg) {
	token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	r.mu.Lock()
	c := r.calls[token]
	r.mu.Unlock()
	if c == nil {
		return // its caller gave up
	}
	end := func(err error) {
		c.err = err
		r.mu.Lock()
		if r.calls[token] == c {
			delete(r.calls, token)
			close(c.done)
		}
		r.mu.Unlock()
	}
	if status := m.Header.Get("Status"); status != "" && len(m.Data) == 0 {
		switch status {
		case "204":
			c.end = m.Header
			end(nil)
		case "404":
			if len(c.msgs) > 0 { // a message went away while the answer was on its way
				end(errRetry)
				return
			}
			end(nil)
		case "413":
			end(errTooMany)
		case "503":
			end(nats.ErrNoResponders)
		default:
			end(fmt.Errorf("direct get: %s %s", status, m.Header.Get("Description")))
		}
		return
	}
	msg, err := directMessage(m)
	if err != nil {
		end(err)
		return
	}
	c.msgs = append(c.msgs, msg)
	if c.single {
		end(nil)
	}
}

var errRetry = errors.New("read again")

func directMessage(m *nats.Msg) (message, error) {
	seq, err := strconv.ParseUint(header(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return message{}, fmt.Errorf("direct get: sequence: %w", err)
	}
	ts, err := time.Parse(time.RFC3339Nano, header(m.Header, jetstream.TimeStampHeaer))
	if err != nil {
		return message{}, fmt.Errorf("direct get: time: %w", err)
	}
	return message{
		subject: header(m.Header, jetstream.SubjectHeader), header: m.Header, data: m.Data, seq: seq, time: ts,
	}, nil
}

// directRequest is the body of a direct get.
type directRequest struct {
	Seq       uint64   `json:"seq,omitzero"`
	MultiLast []string `json:"multi_last,omitzero"`
	UpToSeq   uint64   `json:"up_to_seq,omitzero"`
	NextFor   string   `json:"next_by_subj,omitzero"`
	Batch     int      `json:"batch,omitzero"`
	MaxBytes  int      `json:"max_bytes,omitzero"`
}

// get makes one direct get, whoever answers it: the leader, or a follower that may be behind.
func (r *reader) get(ctx context.Context, req directRequest) (*call, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c, forget, err := r.ask(req)
	if err != nil {
		return nil, err
	}
	defer forget()
	return c, c.wait(ctx)
}

// ask sends a direct get. forget is to be called once its answer is not awaited any more.
func (r *reader) ask(req directRequest) (c *call, forget func(), err error) {
	body, err := job.Encode(req)
	if err != nil {
		return nil, nil, err
	}
	token := strconv.FormatUint(r.next.Add(1), 36)
	c = &call{single: req.Batch == 0 && len(req.MultiLast) == 0, done: make(chan struct{})}
	r.mu.Lock()
	r.calls[token] = c
	r.mu.Unlock()
	forget = func() {
		r.mu.Lock()
		delete(r.calls, token)
		r.mu.Unlock()
	}
	if err := r.nc.PublishRequest(apiPrefix+"DIRECT.GET."+r.stream, r.inbox+"."+token, body); err != nil {
		forget()
		return nil, nil, err
	}
	return c, forget, nil
}

func (c *call) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("direct get: %w", ctx.Err())
	}
}

// sequences reads the messages from one sequence on and up to, not including, another; what is not there is left
// out. It asks for each by its number, all at once: a batch would have the server count what is left of the stream,
// at a tenth of a microsecond for each message that it holds, while writers wait.
func (r *reader) sequences(ctx context.Context, from, to uint64) ([]message, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	calls := make([]*call, 0, to-from)
	for seq := max(from, 1); seq < to; seq++ {
		c, forget, err := r.ask(directRequest{Seq: seq})
		if err != nil {
			return nil, err
		}
		defer forget()
		calls = append(calls, c)
	}
	msgs := make([]message, 0, len(calls))
	for _, c := range calls {
		if err := c.wait(ctx); err != nil {
			return nil, err
		}
		msgs = append(msgs, c.msgs...)
	}
	return msgs, nil
}

// batch reads up to n messages from a sequence on, of the subjects that a filter matches or of all of them, and
// answers how many are left after them. The server counts those: half a microsecond for each message of the
// stream's that the filter matches, a tenth for each one without a filter, whatever the sequence; so n should be
// large where those are many.
func (r *reader) batch(ctx context.Context, from uint64, filter string, n int) (msgs []message, left uint64, err error) {
	for {
		c, err := r.get(ctx, directRequest{Seq: max(from, 1), NextFor: filter, Batch: n, MaxBytes: batchBytes})
		if errors.Is(err, errRetry) {
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return nil, 0, err
			}
			continue
		}
		if err != nil || len(c.msgs) == 0 {
			return nil, 0, err
		}
		left, err = strconv.ParseUint(header(c.end, "Nats-Num-Pending"), 10, 64)
		if err != nil {
			return nil, 0, fmt.Errorf("direct get: how many are left: %w", err)
		}
		return c.msgs, left, nil
	}
}

// batchBytes bounds one batch, in bytes.
const batchBytes = 16 << 20

// multiLast reads the last message of every subject that one of the filters matches, as of one instant: that
// at which the sequence it answers was the stream's last, by the replica that answered (0 where it found
// nothing).
func (r *reader) multiLast(ctx context.Context, filters []string) ([]message, uint64, error) {
	for range 3 {
		req := directRequest{MultiLast: filters}
		var msgs []message
		for {
			c, err := r.get(ctx, req)
			if errors.Is(err, errRetry) {
				break
			}
			if err != nil {
				return nil, 0, err
			}
			msgs = append(msgs, c.msgs...)
			upTo, _ := strconv.ParseUint(header(c.end, "Nats-UpTo-Sequence"), 10, 64)
			if pending := header(c.end, "Nats-Num-Pending"); len(c.msgs) == 0 || pending == "" || pending == "0" {
				return msgs, upTo, nil
			}
			req.Seq, req.UpToSeq = c.msgs[len(c.msgs)-1].seq+1, upTo
		}
	}
	return nil, 0, errRetry
}

// maxFilters is how many jobs one direct get asks for. The server refuses more than 1,024 matches; a job has
// seven documents at the very most.
const maxFilters = 128

// documents reads the documents of several jobs, named by their tails, by direct gets. The replica that
// answered had everything up to the sequence that it answers, and perhaps nothing later. What is known already
// is not taken apart again.
func (s *Store) documents(ctx context.Context, tails []string, known ...*record) (map[string][]record, uint64, error) {
	upTo := uint64(math.MaxUint64)
	have := make(map[uint64]*record, len(known))
	for _, r := range known {
		have[r.seq] = r
	}
	tails = slices.Compact(slices.Sorted(slices.Values(tails)))
	out := make(map[string][]record, len(tails))
	for part := range slices.Chunk(tails, maxFilters) {
		filters := make([]string, len(part))
		for i, t := range part {
			filters[i] = s.names.filter(t)
		}
		msgs, seq, err := s.read.multiLast(ctx, filters)
		if err != nil {
			return nil, 0, err
		}
		upTo = min(upTo, seq)
		for _, m := range msgs {
			r := have[m.seq] // a sequence names one message for ever
			if r == nil {
				r = new(record)
				*r = s.names.record(m)
			}
			out[r.tail] = append(out[r.tail], *r)
		}
	}
	return out, upTo, nil
}

// fromLeader reads one job's documents from the stream's leader, which no answer lags behind.
func (s *Store) fromLeader(ctx context.Context, tail string) ([]record, error) {
	return s.walkLeader(ctx, s.names.filter(tail))
}

// walkLeader reads the documents that filter matches. It walks up the sequences, so that a document that moves
// meanwhile is met at its later place: what it answers as the newest was the newest when it ended.
func (s *Store) walkLeader(ctx context.Context, filter string) ([]record, error) {
	var recs []record
	seq := uint64(1)
	for {
		m, err := s.leaderNext(ctx, filter, seq)
		if errors.Is(err, job.ErrNotFound) {
			return recs, nil
		}
		if err != nil {
			return nil, err
		}
		r := s.names.record(m)
		// What stood on the same subject has been replaced by it.
		recs = slices.DeleteFunc(recs, func(o record) bool { return o.state == r.state && o.tail == r.tail })
		recs = append(recs, r)
		seq = m.seq + 1
	}
}

// leaderNext asks the leader for the first message from seq on that filter matches.
func (s *Store) leaderNext(ctx context.Context, filter string, seq uint64) (message, error) {
	body, err := job.Encode(directRequest{Seq: seq, NextFor: filter})
	if err != nil {
		return message{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := s.nc.RequestWithContext(ctx, apiPrefix+"STREAM.MSG.GET."+s.names.stream(), body)
	if err != nil {
		return message{}, fmt.Errorf("reading from the leader: %w", err)
	}
	var out struct {
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := job.Decode(resp.Data, &out); err != nil {
		return message{}, fmt.Errorf("reading from the leader: %w", err)
	}
	if out.Error != nil {
		if out.Error.ErrorCode == codeNoMessage {
			return message{}, job.ErrNotFound
		}
		return message{}, fmt.Errorf("reading from the leader: %w", out.Error)
	}
	if out.Message == nil {
		return message{}, errors.New("reading from the leader: an answer without a message")
	}
	m := message{
		subject: out.Message.Subject, seq: out.Message.Seq, data: out.Message.Data, time: out.Message.Time,
	}
	if len(out.Message.Header) > 0 {
		if m.header, err = nats.DecodeHeadersMsg(out.Message.Header); err != nil {
			return message{}, fmt.Errorf("reading from the leader: %w", err)
		}
	}
	return m, nil
}

// Get reads a job. See job.Queue.
func (s *Store) Get(ctx context.Context, key job.Key) (*job.Job, error) {
	key.Space = cmp.Or(key.Space, job.DefaultSpace)
	ctx, cancel := bounded(ctx)
	defer cancel()
	n, err := s.find(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("get %s/%s: %w", key.Space, key.ID, err)
	}
	return n.public(), nil
}

// find reads the newest document of the job that a key means; an empty queue means whichever has it. Its errors are
// job.ErrNotFound, a *job.AmbiguousError, or of the reading.
func (s *Store) find(ctx context.Context, key job.Key) (*record, error) {
	if err := job.ValidateName("id", key.ID, job.MaxName); err != nil {
		return nil, err
	}
	filter := s.names.anyQueue(key.Space, key.ID)
	if key.Queue != "" {
		filter = s.names.filter(tail(key))
	}
	msgs, _, err := s.read.multiLast(ctx, []string{filter})
	if err != nil {
		return nil, err
	}
	recs := make([]record, len(msgs))
	for i, m := range msgs {
		recs[i] = s.names.record(m)
	}
	if len(recs) == 0 { // a replica that is behind may have answered; the leader knows
		if recs, err = s.walkLeader(ctx, filter); err != nil {
			return nil, err
		}
	}
	byQueue := make(map[string][]record)
	for _, r := range recs {
		byQueue[r.tail] = append(byQueue[r.tail], r)
	}
	var found *record
	var queues []string
	for _, recs := range byQueue {
		if n := newest(recs); n.state != stateDeleted {
			found = n
			queues = append(queues, n.Job.Queue)
		}
	}
	switch len(queues) {
	case 0:
		return nil, job.ErrNotFound
	case 1:
		return found, nil
	default:
		slices.Sort(queues)
		return nil, &job.AmbiguousError{Space: key.Space, ID: key.ID, Queues: queues}
	}
}

// public is the job as callers see it.
func (r *record) public() *job.Job {
	j := *r.job()
	if j.DueAt.IsZero() {
		j.DueAt = j.CreatedAt
	}
	if j.RunAt.IsZero() {
		j.RunAt = j.DueAt
	}
	if r.bad != nil {
		j.Error = "this document cannot be read as a job: " + r.bad.Error()
		j.Raw = r.raw
	}
	return &j
}
