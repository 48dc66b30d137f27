package pinned

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// codeSchedulerInvalid is the answer to a purge of what is no alarm.
const codeSchedulerInvalid = 10212

func alarms() []behaviour {
	return []behaviour{
		{"an alarm fires into its wake, not early, and is gone", alarmFires},
		{"an alarm of a past instant fires at once", pastAlarmFires},
		{"an alarm goes with a guarded write that names it", alarmIsPurged},
		{"an alarm stays if the write that names it is refused", alarmStays},
		{"a purge of an alarm that is gone is no error", alarmIsGone},
		{"a purge takes nothing but an alarm", purgeTakesAlarmsOnly},
		{"two alarms that fire into one wake leave one", alarmsShareAWake},
	}
}

// schedule makes an alarm.
func (j *jobs) schedule(id, writer string, at time.Time) *nats.Msg {
	msg := nats.NewMsg(j.alarm(id, writer))
	msg.Header.Set("Nats-Schedule", "@at "+at.UTC().Format(time.RFC3339Nano))
	msg.Header.Set("Nats-Schedule-Target", j.wake(id))
	return msg
}

// purging has a write take an alarm along.
func purging(msg *nats.Msg, alarm string) *nats.Msg {
	msg.Header.Set("Nats-Scheduler", alarm)
	msg.Header.Set("Nats-Schedule-Next", "purge")
	return msg
}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

// fired waits for a wake.
func (j *jobs) fired(t *testing.T, id string) *stored {
	t.Helper()
	var wake *stored
	natstest.Eventually(t, soon, func() bool {
		wake = j.last(t, j.wake(id))
		return wake != nil
	}, "the wake")
	return wake
}

func alarmFires(t *testing.T, p *place) {
	j := p.jobs(t)
	at := time.Now().Add(2234567891 * time.Nanosecond)
	j.put(t, j.schedule("a", "w", at))
	require.NotNil(t, j.last(t, j.alarm("a", "w")))
	wake := j.fired(t, "a")
	require.False(t, wake.Time.Before(at), "%s early", at.Sub(wake.Time))
	require.Empty(t, wake.Data)
	h, err := nats.DecodeHeadersMsg(wake.Hdrs)
	require.NoError(t, err)
	require.Equal(t, j.alarm("a", "w"), h.Get("Nats-Scheduler"))
	require.Equal(t, "purge", h.Get("Nats-Schedule-Next"))
	require.Nil(t, j.last(t, j.alarm("a", "w")))
	t.Logf("fired %s late; headers %v", wake.Time.Sub(at), h)
}

func pastAlarmFires(t *testing.T, p *place) {
	j := p.jobs(t)
	began := time.Now()
	j.put(t, j.schedule("a", "w", began.Add(-time.Hour)))
	wake := j.fired(t, "a")
	require.Less(t, wake.Time.Sub(began), 5*time.Second)
	require.Nil(t, j.last(t, j.alarm("a", "w")))
	t.Logf("fired after %s", wake.Time.Sub(began))
}

func alarmIsPurged(t *testing.T, p *place) {
	j := p.jobs(t)
	j.put(t, j.schedule("a", "other", inAnHour()))
	j.put(t, j.schedule("a", "w", inAnHour()))
	due := j.put(t, guarded(j.doc("due", "a"), j.filter("a"), 0))
	j.put(t, purging(guarded(j.doc("cancelled", "a"), j.filter("a"), due), j.alarm("a", "w")))
	require.Nil(t, j.last(t, j.alarm("a", "w")))
	require.NotNil(t, j.last(t, j.alarm("a", "other")))
	require.Nil(t, j.last(t, j.wake("a")))
}

func alarmStays(t *testing.T, p *place) {
	j := p.jobs(t)
	alarm := j.put(t, j.schedule("a", "w", time.Now().Add(4*time.Second)))
	due := j.put(t, guarded(j.doc("due", "a"), j.filter("a"), 0))
	for _, wrong := range []uint64{0, due + 1} {
		msg := purging(guarded(j.doc("cancelled", "a"), j.filter("a"), wrong), j.alarm("a", "w"))
		require.Equal(t, codeWrongLastSequence, j.refused(t, msg))
	}
	require.Equal(t, alarm, j.last(t, j.alarm("a", "w")).Seq)
	j.fired(t, "a")
}

func alarmIsGone(t *testing.T, p *place) {
	j := p.jobs(t)
	due := j.put(t, guarded(j.doc("due", "a"), j.filter("a"), 0))
	j.put(t, purging(guarded(j.doc("cancelled", "a"), j.filter("a"), due), j.alarm("a", "w")))
	require.Nil(t, j.last(t, j.alarm("a", "w")))
}

// Since 2.14.1. A server of 2.14.0 purges whatever subject it is told, one without wildcards that is not the write's
// own; jetcrew itself never names anything but an alarm.
func purgeTakesAlarmsOnly(t *testing.T, p *place) {
	j := p.jobs(t)
	a := j.put(t, guarded(j.doc("ready", "a"), j.filter("a"), 0))
	for _, scheduler := range []string{j.ns + ".alarm.>", j.doc("ready", "b")} {
		msg := purging(guarded(j.doc("ready", "b"), j.filter("b"), 0), scheduler)
		require.Equal(t, codeSchedulerInvalid, j.refused(t, msg), scheduler)
	}
	msg := purging(guarded(j.doc("ready", "b"), j.filter("b"), 0), j.doc("ready", "a"))
	if p.isFirst214() {
		j.put(t, msg)
		require.Nil(t, j.last(t, j.doc("ready", "a")), "another job's document is gone")
		return
	}
	require.Equal(t, codeSchedulerInvalid, j.refused(t, msg))
	require.Equal(t, a, j.last(t, j.doc("ready", "a")).Seq)
}

func alarmsShareAWake(t *testing.T, p *place) {
	j := p.jobs(t)
	at := time.Now().Add(time.Second)
	j.put(t, j.schedule("a", "v", at))
	j.put(t, j.schedule("a", "w", at))
	natstest.Eventually(t, soon, func() bool {
		return j.last(t, j.alarm("a", "v")) == nil && j.last(t, j.alarm("a", "w")) == nil
	})
	require.NotNil(t, j.last(t, j.wake("a")))
	require.EqualValues(t, 1, j.messages(t))
}
