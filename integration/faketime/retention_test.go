package faketime

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
)

// expiryRests is how late the server may remove what is past its time: it counts in whole seconds, and looks now and then.
const expiryRests = 10 * time.Second

const day = 24 * time.Hour

// ends are all that a job can come to.
var ends = []job.Status{job.Succeeded, job.Dead, job.Failed, job.Cancelled}

// retention sets how long a queue's records stay.
func (w *world) retention(queue string, d time.Duration) {
	w.t.Helper()
	keep := make(map[job.Status]time.Duration)
	for _, s := range ends {
		keep[s] = d
	}
	_, err := w.store.Configure(w.t.Context(), queue, job.QueueSettings{Retention: keep})
	require.NoError(w.t, err)
}

// leave wants the records of some ends to be there until their retention is over, and then to be gone.
func (w *world) leave(keys map[job.Status]job.Key, keep time.Duration, which ...job.Status) {
	w.t.Helper()
	first, last := time.Duration(1<<62), time.Duration(0)
	for _, s := range which {
		gone := w.get(keys[s]).UpdatedAt.Add(keep).Sub(w.begin)
		first, last = min(first, gone), max(last, gone)
	}
	w.away(first - time.Second)
	for _, s := range which {
		w.get(keys[s])
	}
	w.until(last + expiryRests)
	for _, s := range which {
		w.gone(keys[s])
	}
}

// ends has jobs come to all their ends in a queue at once, and answers them by how they ended.
func (w *world) ends(queue string) map[job.Status]job.Key {
	w.t.Helper()
	a := w.hire("of "+queue, handConfig{
		worker: worker.Config{Queues: map[string]int{queue: 4}},
		handler: func(_ context.Context, j *job.Job) (any, error) {
			switch job.Status(j.ID) {
			case job.Dead:
				return nil, job.GiveUp(errors.New("never"))
			case job.Failed:
				return nil, job.Refuse("no", "no")
			}
			return nil, nil
		},
	})
	keys := make(map[job.Status]job.Key)
	for _, s := range ends {
		spec := job.Spec{Queue: queue, ID: string(s)}
		if s == job.Cancelled {
			spec.Delay = time.Hour
		}
		keys[s] = w.enqueue(spec)
		if s == job.Cancelled {
			_, err := w.store.Cancel(w.t.Context(), keys[s])
			require.NoError(w.t, err)
		}
		require.Equal(w.t, s, w.ended(keys[s]).Status)
	}
	a.retire()
	return keys
}

// A record stays for its retention, and then goes by itself; what has not ended never does.
func TestRetentionOfTheLeastTime(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		waiting := w.enqueue(job.Spec{Queue: "nobody", ID: "waiting"})
		due := w.enqueue(job.Spec{Queue: "nobody", ID: "due", Delay: 30 * day})
		w.retention("short", streams.MinRetention)
		short, std := w.ends("short"), w.ends("default")
		w.leave(short, 10*time.Minute, ends...)
		for _, key := range std {
			w.get(key)
		}
		require.Equal(t, job.Pending, w.get(waiting).Status)
		require.Equal(t, job.Pending, w.get(due).Status)
	})
}

// What ended as it was meant to stays for a day, what somebody may have to look at for a week. Ninety days are more than any default, and the server is told so.
func TestRetentionOfADayAWeekAndMore(t *testing.T) {
	heavy(t)
	bubble(t, func(w *world) {
		t := w.t
		w.retention("long", 90*day)
		long, std := w.ends("long"), w.ends("default")
		w.leave(std, day, job.Succeeded, job.Cancelled)
		w.leave(std, 7*day, job.Failed, job.Dead)
		js, err := jetstream.New(w.nc)
		require.NoError(t, err)
		stream, err := js.Stream(t.Context(), "JETCREW_JOBS")
		require.NoError(t, err)
		for s, key := range long {
			w.get(key)
			m, err := stream.GetLastMsgForSubject(t.Context(), "jetcrew.job."+string(s)+".long.default."+key.ID)
			require.NoError(t, err)
			require.Equal(t, "7776000", m.Header.Get(jetstream.MsgTTLHeader))
		}
	})
}

// An id is taken for as long as any record of its job is there, far beyond the server's window of duplicates (2 min), and
// free again when there is none.
func TestAnIDIsTakenForAsLongAsThereIsARecord(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t := w.t
		ctx := t.Context()
		spec := job.Spec{ID: "once", Type: "t"}
		taken := func() {
			t.Helper()
			e, err := w.store.Enqueue(ctx, spec)
			require.NoError(t, err)
			require.False(t, e.Created)
			all, err := w.store.EnqueueMany(ctx, []job.Spec{spec})
			require.NoError(t, err)
			require.False(t, all[0].Created)
			_, err = w.store.EnqueueAll(ctx, []job.Spec{spec})
			require.ErrorIs(t, err, job.ErrConflict)
		}
		key := w.enqueue(spec)
		for _, d := range []time.Duration{time.Second, 3 * time.Minute, time.Hour, 8 * time.Hour} { // it waits
			w.away(d)
			taken()
		}
		a := w.hire("a", handConfig{handler: ok})
		gone := w.ended(key).UpdatedAt.Add(day).Sub(w.begin)
		taken()
		a.retire()
		for _, d := range []time.Duration{9 * time.Hour, 20 * time.Hour, gone - time.Second} { // it has ended
			w.away(d)
			taken()
		}
		require.Len(t, a.ran(), 1)
		w.until(gone + expiryRests)
		w.enqueue(spec)
		b := w.hire("b", handConfig{handler: ok})
		j := w.ended(key)
		require.Len(t, j.History, 1, "nothing is left of the first one")
		require.Len(t, b.ran(), 1)
	})
}
