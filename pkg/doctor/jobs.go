package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

const (
	// overdueLook is how many due jobs are looked at, those first that were written first.
	overdueLook = 500
	// countMost is how many jobs of a state may be counted by queue: more would keep the server busy.
	countMost = 200_000
	// asideLook is how many dead records are looked at, the newest first.
	asideLook = 500
)

// lookForOverdue looks for due jobs that nothing moved at their instant: not their alarm, and not housekeeping, which
// takes ten seconds.
func (e *exam) lookForOverdue(ctx context.Context) error {
	if e.store == nil {
		return errUnknown
	}
	now := e.now()
	late, looked, worst, first, hurried := 0, 0, time.Duration(0), "", false
	for from := uint64(1); looked < overdueLook; looked++ {
		if hurried = e.late(ctx); hurried {
			break
		}
		m, err := e.next(ctx, e.names.jobs(), e.names.job("due", ">"), from, false)
		if err != nil {
			return err
		}
		if m == nil {
			break
		}
		from = m.seq + 1
		var doc struct {
			Space string    `json:"space"`
			ID    string    `json:"id"`
			RunAt time.Time `json:"runAt"`
			DueAt time.Time `json:"dueAt"`
		}
		if job.Decode(m.data, &doc) != nil {
			continue // housekeeping tells of what is no job
		}
		at := doc.RunAt
		if at.IsZero() {
			at = doc.DueAt
		}
		if by := now.Sub(at); !at.IsZero() && by > e.cfg.ages().overdue {
			late++
			if by > worst {
				worst, first = by, fmt.Sprintf("%s --space %s", word(doc.ID), word(doc.Space))
			}
		}
	}
	facts := map[string]any{"looked": looked, "overdue": late, "worstMs": worst.Milliseconds()}
	if late > 0 {
		e.fail(fmt.Sprintf("%s overdue, by up to %s: neither an alarm nor housekeeping has moved them", plural(late, "due job"), span(worst)),
			"see that somebody leads, and that its housekeeping works (its log): jetcrew schedule, or workers without --no-lead; jetcrew job get "+first, facts)
		return nil
	}
	if hurried {
		e.warn(fmt.Sprintf("only %s looked at, of which none is overdue", plural(looked, "due job")), "give it more time (--timeout)", facts)
		return nil
	}
	e.ok(fmt.Sprintf("no due job is overdue (%d looked at)", looked), facts)
	return nil
}

// lookAtDead counts the dead jobs, by queue.
func (e *exam) lookAtDead(ctx context.Context) error {
	if e.store == nil {
		return errUnknown
	}
	counts, err := e.store.Count(ctx)
	if errors.Is(err, streams.ErrTopology) {
		return fmt.Errorf("%w: a consumer that counts is missing, or counts something else", errUnknown)
	}
	if err != nil {
		return err
	}
	facts := map[string]any{"dead": counts.Dead, "failed": counts.Failed}
	if counts.Dead == 0 {
		e.ok("no job is dead", facts)
		return nil
	}
	left := counts.Dead
	told := e.queues != nil && left <= countMost // by queue
	if told {
		for _, q := range e.queues {
			n, err := e.count(ctx, e.names.jobs(), e.names.job("dead", streams.QueueToken(q.Name)+".>"))
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			left -= n
			e.warn(fmt.Sprintf("queue %s: %s dead", q.Name, plural(n, "job")),
				fmt.Sprintf("jetcrew job list --all-spaces --status dead --queue %s; once it is mended: jetcrew job requeue --all-spaces --status dead --queue %s", word(q.Name), word(q.Name)),
				map[string]any{"queue": q.Name, "dead": n})
		}
	}
	if left > 0 {
		text := plural(left, "job") + " dead"
		if told {
			text += ", of queues that are no more"
		}
		e.warn(text, "jetcrew job list --all-spaces --status dead", map[string]any{"dead": left})
	}
	return nil
}

// lookForSetAside looks for messages that were no jobs, among the dead.
func (e *exam) lookForSetAside(ctx context.Context) error {
	if e.store == nil {
		return errUnknown
	}
	page, err := e.store.List(ctx, job.ListRequest{
		Filter: job.Filter{AllSpaces: true, Statuses: []job.Status{job.Dead}}, Limit: asideLook, Bare: true,
	})
	if err != nil {
		return err
	}
	n := 0
	var first *job.Job
	for _, j := range page.Jobs {
		if j.Type == "" {
			n++
			if first == nil {
				first = j
			}
		}
	}
	facts := map[string]any{"setAside": n, "looked": len(page.Jobs)}
	if n == 0 {
		e.ok("no message was set aside as unreadable", facts)
		return nil
	}
	e.warn(fmt.Sprintf("%s set aside, since they are no jobs (among the %s looked at)", plural(n, "message"), plural(len(page.Jobs), "dead record")),
		fmt.Sprintf("jetcrew job get %s --space %s --queue %s shows the bytes and the reason; have its producer send it again, and jetcrew job delete it", word(first.ID), word(first.Space), word(first.Queue)), facts)
	return nil
}
