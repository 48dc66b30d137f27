// Package queuetest is the contract of a job queue as a suite of tests. Every implementation of job.Queue, which is to
// be a job.Operator as well, runs it; one test stands for one paragraph of the contract, and is named after it.
//
// It promises that an implementation that passes hands out every job exactly once at a time, keeps its leases,
// records what became of each attempt, and does what an operator asks of it. It leaves to others what happens when a process or a server dies
// in the middle of a write.
package queuetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Harness is an implementation under test, for one test. What it made is to be cleaned up by t.Cleanup of the
// test that it was made for. It may implement the capabilities below; what needs one that it lacks is skipped.
type Harness interface {
	// Queue is where the jobs are kept. Several tests may share what is behind it at the same time.
	Queue() job.Queue
}

// Clients is the capability of a second client of the same store, with a connection of its own.
type Clients interface {
	Client(t *testing.T) job.Queue
}

// Links is the capability of a client whose link to the store can be cut and mended.
type Links interface {
	Link(t *testing.T) (q job.Queue, cut, mend func())
}

// Raw is the capability of reading and writing a document's bytes, past the queue.
type Raw interface {
	PutReady(t *testing.T, key job.Key, body []byte)
	Document(t *testing.T, key job.Key) []byte
}

// SetAside is the capability of a record that holds a message which could not be read as a job.
type SetAside interface {
	SetAside(t *testing.T, key job.Key, body []byte)
}

// Expiring is the capability to tell for how long a job's record is kept from its last update; 0: for good.
type Expiring interface {
	Retention(t *testing.T, key job.Key) time.Duration
}

// Indexed is the capability of another lister of the same store, which keeps an index: it may answer a moment late.
type Indexed interface {
	Index(t *testing.T) job.Lister
}

// Limited is the capability of a limit: an input of that many bytes is too large.
type Limited interface {
	TooLarge() int
}

// Slow is the capability of a lease longer than a second, for a store that may take its time.
type Slow interface {
	Lease() time.Duration
}

const (
	soon  = 30 * time.Second       // what must come comes within
	while = 700 * time.Millisecond // what must not come does not within
	calm  = 15 * time.Second       // a lease that does not lapse
	skew  = 50 * time.Millisecond  // by how much the store's clock may be misjudged
)

// Run tests one implementation: each test on a harness of its own, many at a time.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, c := range []struct {
		name string
		test func(*env)
	}{
		{"A0_a_job_has_defaults", defaults},
		{"A0_names_have_lengths_in_bytes", lengths},
		{"A0_names_may_be_any_text", anyText},
		{"A0_what_is_no_job_is_refused", refusals},
		{"A0_what_is_too_large_is_refused", tooLarge},
		{"A1_every_instant_is_the_stores", instants},
		{"A1_a_dueAt_is_kept", dueAt},
		{"A2_enqueue_is_idempotent", idempotent},
		{"A2_one_of_ten_producers_is_told_true", race},
		{"A2_an_id_in_two_queues_is_ambiguous", ambiguous},
		{"A2_bulk_answers_stand_in_order", many},
		{"A2_bulk_goes_on_past_what_is_refused", manyRefused},
		{"A2_all_or_nothing", all},
		{"A2_all_or_nothing_up_to_a_thousand", thousand},
		{"A3_only_what_is_due_is_claimed", onlyDue},
		{"A4_claims_are_exclusive", exclusive},
		{"A4_a_backlog_is_drained_exactly_once", backlog},
		{"A5_a_claimed_job_is_running", claimed},
		{"A6_a_lapsed_lease_hands_over", lapse},
		{"A6_a_worker_that_never_reported_is_unknown", lapseYoung},
		{"A6_the_last_attempts_lapse_ends_dead", lapseLast},
		{"A7_a_heartbeat_keeps_a_claim", heartbeat},
		{"A7_a_lost_claim_renews_nothing", heartbeatLost},
		{"A8_a_late_settlement_changes_nothing", late},
		{"A8_a_worker_that_was_cut_off_changes_nothing", cutOff},
		{"A8_a_claim_is_settled_once", once},
		{"A9_a_finished_attempt_is_recorded", finished},
		{"A9_an_outcome_that_is_none_is_refused", noOutcome},
		{"A10_a_retry_waits_out_its_backoff", retry},
		{"A10_attempts_come_to_an_end", exhausted},
		{"A11_a_job_handed_back_gets_its_attempt_back", refund},
		{"A11_a_job_handed_back_waits_for_its_delay", refundDelay},
		{"A11_a_run_id_survives", runID},
		{"A11_an_error_is_overwritten", overwritten},
		{"A11_a_cancelled_job_does_not_wait_again", cancelWins},
		{"A11_a_drain_hands_back_what_was_not_claimed", drain},
		{"A12_a_listing_is_narrowed_by_its_filter", listFilters},
		{"A12_a_listing_has_the_records", listRecords},
		{"A12_the_newest_update_comes_first", listOrder},
		{"A12_pages_list_what_is_unchanged_once", listCursor},
		{"A12_an_index_has_other_orders", listIndex},
		{"A12_what_cannot_be_listed_is_refused", listRefusals},
		{"A12_no_space_means_no_job", listNoSpace},
		{"A12_another_spaces_job_is_not_found", otherSpace},
		{"A13_a_requeued_job_starts_anew", requeueRecord},
		{"A13_a_requeued_job_is_not_to_be_cancelled_any_more", requeueCancelled},
		{"A13_a_requeued_job_goes_to_the_end_of_the_line", requeueLine},
		{"A13_only_what_has_ended_is_requeued", requeueUnended},
		{"A13_one_of_many_requeues_is_told_so", requeueRace},
		{"A13_past_its_deadline_nothing_is_requeued", requeueImpossible},
		{"A13_what_is_no_job_is_not_requeued", requeueRaw},
		{"A13_an_operation_wants_one_job", whichJob},
		{"A14_what_waits_is_cancelled_at_once", cancelWaiting},
		{"A14_B7_what_runs_is_told_to_stop", cancelRunning},
		{"A14_B7_what_is_held_counts_as_running", cancelYoung},
		{"A14_what_has_ended_is_not_cancelled", cancelEnded},
		{"A14_what_was_to_stop_does_not_come_back", cancelAbandoned},
		{"A14_cancels_and_workers_agree", cancelRace},
		{"A14_a_bulk_operation_does_as_it_says", bulk},
		{"A14_a_bulk_operation_starts_what_is_due", bulkRunNow},
		{"A14_a_bulk_operation_and_workers_agree", bulkRace},
		{"A14_a_bulk_operation_is_checked", bulkRefusals},
		{"A15_records_are_kept_by_their_status", retention},
		{"A15_records_may_not_be_kept_at_all", retentionNone},
		{"A15_a_retention_is_checked", retentionRefusals},
		{"A16_unknown_members_survive", unknown},
		{"what_is_due_is_run_now", runNow},
		{"a_deleted_job_is_gone", deleteRecord},
		{"a_running_job_is_not_deleted", deleteRunning},
		{"a_pause_holds_a_queue", pauseQueue},
		{"a_pause_ends_at_its_instant", pauseUntil},
		{"a_concurrency_holds_for_the_fleet", concurrency},
		{"a_queue_is_configured", configure},
		{"a_lease_can_be_made_longer", longerLease},
		{"a_queue_that_is_not_there_is_no_queue", noQueue},
		{"a_queues_name_has_a_length_in_bytes", queueNames},
		{"a_queue_that_is_not_used_can_be_deleted", deleteQueue},
		{"counts_are_exact_at_rest", counts},
		{"workers_are_told", workers},
		{"a_handlers_reports_stand_on_the_record", reports},
		{"a_wait_answers_the_end", wait},
		{"a_trace_goes_along", traces},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			e := &env{T: t, h: h, q: h.Queue(), queue: "q-" + uuid.NewString(), lease: time.Second, updates: make(map[job.Key]time.Time)}
			if s, ok := h.(Slow); ok {
				e.lease = s.Lease()
			}
			c.test(e)
		})
	}
}

// env is one test's surroundings: a queue of its own in a store that others use as well.
type env struct {
	*testing.T
	h     Harness
	q     job.Queue
	queue string
	lease time.Duration
	index job.Lister // of an Indexed harness, once it was asked for

	mu      sync.Mutex            // guards what follows
	updates map[job.Key]time.Time // the latest that was read of each job
}

func (e *env) ctx() context.Context {
	ctx, cancel := context.WithTimeout(e.Context(), soon)
	e.Cleanup(cancel)
	return ctx
}

// worker makes a consumer of the test's queue, whose lease is the shortest.
func (e *env) worker(id string) job.Consumer { return e.workerOf(e.q, id) }

// calm gives the test's queue a longer lease, for tests in which nothing is to lapse, however slow the store is.
func (e *env) calm(lease time.Duration) {
	e.Helper()
	e.lease = max(lease, e.lease)
	_, err := e.op().Configure(e.ctx(), e.queue, job.QueueSettings{Lease: &e.lease})
	require.NoError(e, err)
}

func (e *env) workerOf(q job.Queue, id string) job.Consumer {
	e.Helper()
	c, err := q.Consume(e.ctx(), job.ConsumerConfig{Queue: e.queue, WorkerID: id, Slots: 4, Lease: e.lease})
	require.NoError(e, err)
	require.Equal(e, e.lease, c.Lease())
	e.Cleanup(func() { e.stop(c) })
	return c
}

// stop closes a consumer, whatever it still holds.
func (e *env) stop(c job.Consumer) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // the test's own may have ended
	defer cancel()
	if err := c.Close(ctx); err != nil && !errors.Is(err, job.ErrClosed) { // the test may have done so
		e.Logf("closing a consumer: %v", err)
	}
}

// spec is a job of the test's queue.
func (e *env) spec(id string) job.Spec { return job.Spec{Queue: e.queue, ID: id, Type: "t"} }

// enqueue stores a job that is new.
func (e *env) enqueue(s job.Spec) job.Key {
	e.Helper()
	got, err := e.q.Enqueue(e.ctx(), s)
	require.NoError(e, err)
	require.True(e, got.Created)
	require.NoError(e, got.Err)
	return got.Key
}

// get reads a job that was stored: another replica may answer a moment late.
func (e *env) get(key job.Key) *job.Job {
	e.Helper()
	return e.see(key, func(*job.Job) error { return nil })
}

// see reads a job until it is as the test wants it.
func (e *env) see(key job.Key, want func(*job.Job) error) *job.Job {
	e.Helper()
	var j *job.Job
	e.eventually(func() (err error) {
		if j, err = e.q.Get(e.ctx(), key); err != nil {
			return err
		}
		if err := e.forward(j); err != nil {
			return err
		}
		return want(j)
	})
	return j
}

// forward refuses a record that is older than one that was read before: replicas answer by turns, and one may be
// behind.
func (e *env) forward(j *job.Job) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at := e.updates[j.Key()]; j.UpdatedAt.Before(at) {
		return fmt.Errorf("it is as of %s, and was read as of %s before", j.UpdatedAt, at)
	}
	e.updates[j.Key()] = j.UpdatedAt
	return nil
}

func (e *env) eventually(cond func() error) {
	e.Helper()
	deadline := time.Now().Add(soon)
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			require.NoError(e, err, "after %s", soon)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func is(s job.Status) func(*job.Job) error {
	return func(j *job.Job) error {
		if j.Status != s {
			return fmt.Errorf("it is %s, not %s", j.Status, s)
		}
		return nil
	}
}

// claim takes the next job, which must come.
func (e *env) claim(c job.Consumer) job.Claim {
	e.Helper()
	cl, err := c.Claim(e.ctx())
	require.NoError(e, err)
	return cl
}

// nothing checks that there is no job to take.
func (e *env) nothing(c job.Consumer, d time.Duration) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), d)
	defer cancel()
	cl, err := c.Claim(ctx)
	if err == nil {
		require.Fail(e, "a job was handed out", "%+v", cl.Job())
	}
	require.ErrorIs(e, err, context.DeadlineExceeded)
}

func (e *env) settle(cl job.Claim, o job.Outcome) *job.Job {
	e.Helper()
	j, err := cl.Settle(e.ctx(), o)
	require.NoError(e, err)
	return j
}

// near checks an instant of the store's against two readings of its clock around it.
func (e *env) near(got, from, to time.Time, what string) {
	e.Helper()
	require.WithinRange(e, got, from.Add(-skew), to.Add(skew), what)
	require.Equal(e, time.UTC, got.Location(), what)
	require.Zero(e, got.Nanosecond()%int(time.Millisecond), "%s has milliseconds", what)
}

// seen waits until other readers see who runs a job.
func (e *env) seen(key job.Key) *job.Job {
	e.Helper()
	return e.see(key, is(job.Running))
}

// together runs n functions that begin at once.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

func (e *env) fieldError(err error, field string) {
	e.Helper()
	var wrong *job.FieldError
	require.ErrorAs(e, err, &wrong)
	require.Equal(e, field, wrong.Field)
}

var errNotYet = errors.New("not yet")
