package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// maxInFlight is how many writes one store has under way at most.
const maxInFlight = 8192

// Error codes of the server's API.
const (
	codeWrongLast   jetstream.ErrorCode = 10071 // a guard did not hold
	codeGuardInUse  jetstream.ErrorCode = 10164 // another write under the same guard is under way (cluster)
	codeTooLarge    jetstream.ErrorCode = 10054 // message size exceeds maximum allowed
	codeNoMessage   jetstream.ErrorCode = 10037
	codeNotByDelete jetstream.ErrorCode = 10057 // message delete failed
	codeSeqNotFound jetstream.ErrorCode = 10043

	codeAccountFull jetstream.ErrorCode = 10002 // resource limits exceeded for account
	codeServerFull  jetstream.ErrorCode = 10023 // insufficient resources
	codeStorageFull jetstream.ErrorCode = 10047 // insufficient storage resources available
)

var (
	// errGuard: the guard did not hold; somebody else wrote.
	errGuard = errors.New("another write came first")
	// errDuplicate: a message of that id was stored before.
	errDuplicate = errors.New("a message of that id came first")
	// errBusy: definitely not stored, and nobody is to blame; try again.
	errBusy = errors.New("the store did not take it")
)

// write is one guarded write of a document.
type write struct {
	tail  string
	state state
	doc   *document
	guard uint64        // last sequence seen on the job's filter
	ttl   time.Duration // how long it stays; 0: until it is replaced or deleted
	spare int           // bytes that the document has to leave free
	purge string        // the subject of an alarm that goes along with the write
	brief bool          // an end that is deleted once all that is older is gone
	id    string        // a message id, where nothing else protects against a second enqueue
}

// spare is how much room a new job leaves below the server's limit, for what claims and attempts add to it.
const spare = 8 << 10

// message builds the message of a write. A document that has outgrown the server's limit loses its trace, then the older
// half of its log and its history, as often as it takes, and an end that still does not fit its input: a job must be
// able to end, and to be put in whether it is traced or not.
func (s *Store) message(w write) (*nats.Msg, error) {
	m, err := s.encode(w)
	j := w.doc.job()
	if errors.Is(err, job.ErrTooLarge) && j.Trace.Parent != "" {
		j.Trace = job.Trace{}
		m, err = s.encode(w)
	}
	for errors.Is(err, job.ErrTooLarge) && (len(j.History) > 1 || len(j.Log) > 0) {
		j.Log = j.Log[(len(j.Log)+1)/2:]
		j.History = j.History[len(j.History)/2:]
		m, err = s.encode(w)
	}
	if errors.Is(err, job.ErrTooLarge) && w.state.terminal() && len(j.Input)+len(j.Extra) > 0 {
		left := fmt.Sprintf("the input of %d bytes was left out of this record: it did not fit", len(j.Input))
		j.Input, j.Extra = nil, nil
		w.doc.Shed = true
		j.Error = job.CutError(strings.TrimPrefix(j.Error+"; "+left, "; "))
		m, err = s.encode(w)
	}
	return m, err
}

func (s *Store) encode(w write) (*nats.Msg, error) {
	if w.doc.Job.Status = w.state.status(); w.state == stateDeleted {
		w.doc.Job.Status = ""
	}
	body, err := job.Encode(w.doc)
	if err != nil { // all that it is made of can be written: it is nested too deeply
		return nil, fmt.Errorf("%w: encoding it: %w", job.ErrTooLarge, err)
	}
	h := make(nats.Header, 4)
	if !failpoint.Broken(failpoint.SettleUnguarded) || !w.state.terminal() {
		s.guard(h, w.tail, w.guard)
	}
	if failpoint.Broken(failpoint.GuardSpeltTwoWays) && w.state == stateCancelled {
		h[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{s.names.anyQueue(w.doc.Job.Space, w.doc.Job.ID)}
	}
	setTrace(h, w.doc.Job.Trace)
	if w.ttl > 0 {
		h[jetstream.MsgTTLHeader] = []string{seconds(w.ttl)}
	}
	if w.id != "" {
		h[jetstream.MsgIDHeader] = []string{w.id}
	}
	if w.purge != "" {
		h["Nats-Scheduler"] = []string{w.purge}
		h["Nats-Schedule-Next"] = []string{"purge"}
	}
	m := &nats.Msg{Subject: s.names.job(w.state, w.tail), Header: h, Data: body}
	return m, s.fits(m, w.spare)
}

// seconds writes a duration as the server takes TTLs: whole seconds, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// guard has the server take a message only if seq is the last sequence among the job's documents.
func (s *Store) guard(h nats.Header, tail string, seq uint64) {
	h[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(seq, 10)}
	h[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{s.names.filter(tail)}
}

// fits checks a message against the server's limit before it is sent: headers count.
func (s *Store) fits(m *nats.Msg, spare int) error {
	limit := s.nc.MaxPayload()
	room := limit - min(int64(spare), limit/4)
	if size := int64(m.Size() - len(m.Subject) - len(m.Reply)); size > room {
		return fmt.Errorf("%w: its document has %d bytes, at most %d are possible (the server takes %d)", job.ErrTooLarge, size, room, limit)
	}
	return nil
}

// send publishes a message and waits for its acknowledgement. Its errors are errGuard, errBusy, a wrapped
// job.ErrTooLarge, a refusal for good, or a wrapped job.ErrUnknown where the message may or may not have been
// stored.
func (s *Store) send(ctx context.Context, m *nats.Msg) (uint64, error) {
	f, err := s.sendAsync(m)
	if err != nil {
		return 0, err
	}
	return s.await(ctx, f)
}

// sendAsync publishes a message. An error means that it was not sent.
func (s *Store) sendAsync(m *nats.Msg) (jetstream.PubAckFuture, error) {
	f, err := s.js.PublishMsgAsync(m, jetstream.WithStallWait(requestTimeout), jetstream.WithRetryAttempts(0))
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, fmt.Errorf("%w: %w", job.ErrTooLarge, err)
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrInvalidConnection):
		return nil, err
	default:
		return nil, fmt.Errorf("%w: %w", errBusy, err)
	}
}

// await waits for the answer to a publish.
func (s *Store) await(ctx context.Context, f jetstream.PubAckFuture) (uint64, error) {
	select {
	case ack := <-f.Ok():
		return stored(ack)
	case err := <-f.Err():
		err = publishError(err)
		if errors.Is(err, errGuard) {
			s.conflicts.Add(1)
		}
		return 0, err
	case <-ctx.Done():
	}
	select {
	case ack := <-f.Ok(): // it came in time; the choice above is blind
		return stored(ack)
	default:
		return 0, fmt.Errorf("%w: %w", job.ErrUnknown, ctx.Err())
	}
}

func stored(ack *jetstream.PubAck) (uint64, error) {
	if ack.Duplicate {
		return 0, errDuplicate
	}
	return ack.Sequence, nil
}

func publishError(err error) error {
	var api *jetstream.APIError
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w: %w", errBusy, err) // nobody was there to store it
	}
	if !errors.As(err, &api) {
		return fmt.Errorf("%w: %w", job.ErrUnknown, err)
	}
	switch api.ErrorCode {
	case codeWrongLast:
		return errGuard
	case codeTooLarge:
		return fmt.Errorf("%w: %w", job.ErrTooLarge, err)
	case codeGuardInUse:
		return fmt.Errorf("%w: %w", errBusy, err)
	case codeAccountFull, codeServerFull, codeStorageFull: // there may be room again
		return fmt.Errorf("%w: %w: %w", errBusy, job.ErrFull, err)
	}
	if api.Code == http.StatusBadRequest { // it will be refused again
		return fmt.Errorf("the server refused it: %w", err)
	}
	return fmt.Errorf("%w: %w", errBusy, err)
}

// flight is a write that has been sent.
type flight struct {
	w     write
	alarm jetstream.PubAckFuture // of a due document
	doc   jetstream.PubAckFuture
}

// launch sends a write, a due document's alarm right before it. An error means that the document was not
// sent.
func (s *Store) launch(w write) (*flight, error) {
	m, err := s.message(w)
	if err != nil {
		return nil, err
	}
	f := &flight{w: w}
	if w.state == stateDue {
		alarm := s.alarm(w.tail, w.doc.Writer, w.doc.Job.RunAt)
		if failpoint.Broken(failpoint.ScheduleCarriesJob) {
			ready := w.doc.next(newWriter())
			alarm.Data, _ = job.Encode(&ready)
			alarm.Header["Nats-Schedule-Target"] = []string{s.names.job(stateReady, w.tail)}
		}
		if f.alarm, err = s.sendAsync(alarm); err != nil {
			return nil, err
		}
		if err := s.at(AfterAlarm); err != nil {
			return nil, err
		}
	}
	if f.doc, err = s.sendAsync(m); err != nil {
		return nil, err
	}
	return f, nil
}

// land waits for the answer to a write, and tells the world of it. See send for its errors.
func (s *Store) land(ctx context.Context, f *flight) (uint64, error) {
	seq, err := s.await(ctx, f.doc)
	if err != nil {
		return 0, err
	}
	s.announce(f.w, seq)
	if f.alarm != nil {
		at := f.w.doc.Job.RunAt
		// An alarm that fired before its document stood found nothing: it is set once more.
		if _, err := s.await(ctx, f.alarm); err != nil || !s.Now().Before(at) {
			s.rearm(ctx, f.w.tail, f.w.doc.Writer, at)
		}
	}
	return seq, nil
}

// put makes one guarded write. See send for its errors.
func (s *Store) put(ctx context.Context, w write) (uint64, error) {
	f, err := s.launch(w)
	if err != nil {
		return 0, err
	}
	return s.land(ctx, f)
}

// settled makes a guarded write and does not rest until it is known what became of it. After a write that was
// refused, or had no answer, it reads the job's documents from the leader: if one of them is this write's, it
// is done (for a claim only if it is the newest: something may have followed it); otherwise again decides what
// to write instead, and answers false if the job is no longer the writer's, which makes the error
// job.ErrLeaseLost. It answers the sequence, and the documents where it had to read them.
func (s *Store) settled(ctx context.Context, w write, again func([]record) (write, bool)) (uint64, write, []record, error) {
	for try := 0; ; try++ {
		seq, err := s.put(ctx, w)
		if err == nil {
			return seq, w, nil, nil
		}
		if !errors.Is(err, errGuard) && !retryable(err) {
			return 0, w, nil, err
		}
		recs, rerr := s.fromLeader(ctx, w.tail)
		if rerr == nil {
			if r := written(recs, w.doc.Writer); r != nil && (w.state != stateRunning || r.seq == newest(recs).seq) {
				return r.seq, w, recs, nil
			}
			next, ok := again(recs)
			if !ok {
				return 0, w, recs, job.ErrLeaseLost
			}
			w = next
		}
		if perr := pause(ctx, try); perr != nil {
			return 0, w, nil, fmt.Errorf("%w: %w (last: %w)", job.ErrUnknown, perr, cmp.Or(rerr, err))
		}
	}
}

// alarm is the message that has the server wake a worker at an instant. It goes out before the document
// that it belongs to: an alarm without a document is harmless, a document without an alarm would be late. Its
// subject is its own, since a fire purges the subject that it fired from; its instant is never early.
func (s *Store) alarm(tail, writer string, at time.Time) *nats.Msg {
	return &nats.Msg{
		Subject: s.names.alarm(tail, writer),
		Header: nats.Header{
			"Nats-Schedule":        []string{"@at " + job.CeilMillis(at).Format(time.RFC3339Nano)},
			"Nats-Schedule-Target": []string{s.names.wake(tail)},
		},
	}
}

// rearm publishes an alarm once more: the first one may be lost, or have fired before its document stood.
// Should this one fail too, housekeeping finds the document late.
func (s *Store) rearm(ctx context.Context, tail, writer string, at time.Time) {
	if _, err := s.send(ctx, s.alarm(tail, writer, at)); err != nil {
		s.log.Warn().Err(err).Str("job", tail).Msg("alarm not stored; the job will start some seconds late")
	}
}

// event is what is told of a write, without any promise that it arrives.
type event struct {
	Seq      uint64     `json:"seq"`
	Rev      uint64     `json:"rev"`
	Status   job.Status `json:"status"`
	Type     string     `json:"type,omitzero"`
	Attempts int        `json:"attempts"`
	WorkerID string     `json:"workerId,omitzero"`
	Error    string     `json:"error,omitzero"`

	CancelRequested bool `json:"cancelRequested,omitzero"`

	CreatedAt time.Time `json:"createdAt,omitzero"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
	RunAt     time.Time `json:"runAt,omitzero"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // when the record of an end goes
}

// announce publishes a hint about a write. Whoever needs the truth reads the record.
func (s *Store) announce(w write, seq uint64) {
	j := w.doc.job()
	e := event{
		Seq: seq, Rev: w.doc.Rev, Status: j.Status, Type: j.Type, Attempts: j.Attempts, WorkerID: j.WorkerID, Error: j.Error,
		CancelRequested: j.CancelRequested && w.state == stateRunning, CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt, RunAt: j.RunAt,
	}
	if w.ttl > 0 {
		e.ExpiresAt = job.Millis(s.Now().Add(w.ttl))
	}
	body, err := job.Encode(e)
	if err == nil {
		_ = s.nc.Publish(s.names.event(w.state, w.tail), body) // a hint: nobody counts on it
	}
}

// remove deletes messages by sequence. What is gone already is no error.
func (s *Store) remove(ctx context.Context, seqs ...uint64) error {
	var errs []error
	for _, seq := range seqs {
		errs = append(errs, s.removeOne(ctx, seq))
	}
	return errors.Join(errs...)
}

func (s *Store) removeOne(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body := []byte(`{"no_erase":true,"seq":` + strconv.FormatUint(seq, 10) + `}`)
	resp, err := s.nc.RequestWithContext(ctx, apiPrefix+"STREAM.MSG.DELETE."+s.names.stream(), body)
	if err != nil {
		return fmt.Errorf("deleting message %d: %w", seq, err)
	}
	var out struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := job.Decode(resp.Data, &out); err != nil {
		return fmt.Errorf("deleting message %d: %w", seq, err)
	}
	if out.Error == nil || out.Error.ErrorCode == codeSeqNotFound || out.Error.ErrorCode == codeNoMessage {
		return nil
	}
	if out.Error.ErrorCode == codeNotByDelete {
		return nil // the store no longer has it
	}
	return fmt.Errorf("deleting message %d: %w", seq, out.Error)
}

// retryable reports whether trying a write again can help.
func retryable(err error) bool {
	return errors.Is(err, errBusy) || errors.Is(err, job.ErrUnknown)
}

// pause waits a little before the n-th try of a write (n from 0), ever longer, up to a second.
func pause(ctx context.Context, n int) error {
	d := 2 * time.Millisecond << min(n, 9)
	return sleep(ctx, min(d, time.Second))
}
