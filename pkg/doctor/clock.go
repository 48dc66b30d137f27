package doctor

import (
	"context"
	"fmt"
	"time"
)

// How far this process's clock may be from the store's. Nothing is decided by it, but people read logs.
const (
	clockNear = time.Second
	clockFar  = 30 * time.Second
)

// lookAtClock compares this process's clock with the store's, by which leases lapse and schedules fire.
func (e *exam) lookAtClock(context.Context) error {
	if e.store == nil {
		return errUnknown
	}
	offset := e.cfg.Now().Sub(e.store.Now())
	facts := map[string]any{"offsetMs": offset.Milliseconds()}
	far := offset.Abs()
	text := fmt.Sprintf("this machine's clock is %s %s the store's", span(far), ahead(offset))
	const advice = "set the clocks by NTP on all machines. Leases, due jobs and schedules go by the store's clock, which is that of the server that leads the stream: if it is the one that is wrong, they are too early or too late"
	switch {
	case far > clockFar:
		e.fail(text, advice, facts)
	case far > clockNear:
		e.warn(text, advice, facts)
	default:
		e.ok(fmt.Sprintf("this machine's clock agrees with the store's, by which leases and schedules go (%s apart)", span(far)), facts)
	}
	return nil
}

func ahead(offset time.Duration) string {
	if offset < 0 {
		return "behind"
	}
	return "ahead of"
}
