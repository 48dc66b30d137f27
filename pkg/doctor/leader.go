package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

const (
	// leaderLook is how often it is asked who leads, before nobody does: when a leader stops, the next one takes a moment.
	leaderLook  = 8
	leaderEvery = 250 * time.Millisecond
	// schedulesLook is how many schedules are looked at.
	schedulesLook = 5000
	// mostOfAKind is how many schedules are told of one by one.
	mostOfAKind = 10
)

const adviceLead = "start jetcrew schedule, or a worker without --no-lead; see in its log why it does not come to lead"

// lookAtLeader looks whether anybody does what one process of the fleet has to do.
func (e *exam) lookAtLeader(ctx context.Context) error {
	const so = "nobody leads: nothing repairs what crashes leave, and no schedule fires"
	switch info, known := e.streams[e.names.leader()]; {
	case !known:
		return errUnknown
	case info == nil:
		e.fail(so, adviceLead, nil)
		return nil
	}
	election, err := e.election(ctx)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		l, err := election.Leader(ctx)
		if err == nil {
			e.ok(fmt.Sprintf("%s leads, on %s (pid %d) since %s", l.ID, cmp.Or(l.Host, "a host that it does not name"), l.PID, l.Since.Format(job.TimeFormat)),
				map[string]any{"id": l.ID, "host": l.Host, "pid": l.PID, "since": l.Since})
			return nil
		}
		if !errors.Is(err, scheduler.ErrNoLeader) {
			return err
		}
		if deadline, ok := ctx.Deadline(); try == leaderLook || ok && time.Until(deadline) < 2*leaderEvery {
			e.fail(so, adviceLead, nil)
			return nil
		}
		if err := pause(ctx, leaderEvery); err != nil {
			return err
		}
	}
}

// lookAtSchedules looks whether the schedules fire. It reads them one by one: the client library's way to list a bucket
// makes a consumer.
func (e *exam) lookAtSchedules(ctx context.Context) error {
	switch info, known := e.streams[e.names.schedules()]; {
	case !known:
		return errUnknown
	case info == nil:
		e.ok("there are no schedules", nil)
		return nil
	}
	stream := e.names.schedules()
	prefix := "$" + strings.Replace(stream, "_", ".", 1) + "."
	now := e.now()
	n, enabled, all := 0, 0, false
	tell := teller{e: e, told: make(map[string]int)}
	for from := uint64(1); n < schedulesLook && !e.late(ctx); {
		m, err := e.next(ctx, stream, prefix+">", from, false)
		if err != nil {
			return err
		}
		if all = m == nil; all {
			break
		}
		from = m.seq + 1
		if m.header.Get("KV-Operation") != "" || m.header.Get("Nats-Marker-Reason") != "" {
			continue // it was deleted
		}
		n++
		key := strings.TrimPrefix(m.subject, prefix)
		s, err := readSchedule(key, m.data)
		if err != nil {
			tell.fail("unreadable", key+" among the schedules is none, and never fires: "+err.Error(),
				fmt.Sprintf("put it anew, or delete it: nats kv del %s_SCHEDULES %s", e.names.upper(), word(key)), map[string]any{"key": key})
			continue
		}
		name := s.Space + "/" + s.Name
		facts := map[string]any{"schedule": name, "nextRunAt": s.NextRunAt}
		if s.Active() {
			enabled++
		}
		if late := now.Sub(s.NextRunAt); s.Active() && !s.NextRunAt.IsZero() && late > e.cfg.ages().overdue {
			facts["lateMs"] = late.Milliseconds()
			tell.fail("overdue", fmt.Sprintf("schedule %s is overdue by %s", name, span(late)), "see that somebody leads, and what its log says: "+adviceLead, facts)
		}
		if s.Error != "" {
			tell.warn("failed", fmt.Sprintf("schedule %s could not enqueue its last job: %s", name, s.Error),
				"mend what the error says; it goes on with its next fire", facts)
		}
	}
	tell.rest()
	if !all {
		e.warn(fmt.Sprintf("only %s looked at", plural(n, "schedule")),
			"jetcrew scheduler status counts all of them; or give it more time (--timeout)", map[string]any{"looked": n})
	}
	if !e.found() {
		e.ok(fmt.Sprintf("%s, %d of them enabled: none is overdue, none failed", plural(n, "schedule"), enabled),
			map[string]any{"schedules": n, "enabled": enabled})
	}
	return nil
}

// readSchedule reads what stands under a key as whoever fires schedules does.
func readSchedule(key string, body []byte) (*scheduler.Schedule, error) {
	var s scheduler.Schedule
	if err := job.Decode(body, &s); err != nil {
		return nil, err
	}
	if own := streams.Token(s.Space) + "." + streams.Token(s.Name); own != key {
		return nil, fmt.Errorf("what is stored there belongs to %s", own)
	}
	return &s, s.Normalize()
}

// teller tells of the first few of a kind one by one, and of the rest by their number.
type teller struct {
	e    *exam
	told map[string]int
}

func (t *teller) fail(kind, text, advice string, facts map[string]any) {
	if t.told[kind]++; t.told[kind] <= mostOfAKind {
		t.e.fail(text, advice, facts)
	}
}

func (t *teller) warn(kind, text, advice string, facts map[string]any) {
	if t.told[kind]++; t.told[kind] <= mostOfAKind {
		t.e.warn(text, advice, facts)
	}
}

func (t *teller) rest() {
	for _, kind := range []string{"unreadable", "overdue", "failed"} {
		if more := t.told[kind] - mostOfAKind; more > 0 {
			t.e.warn(fmt.Sprintf("%s: %s", plural(more, "more schedule"), kind), "jetcrew schedule list shows all of them", map[string]any{"kind": kind, "more": more})
		}
	}
}
