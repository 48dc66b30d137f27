package pinned

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// codeNotFound is the answer to a deletion of a sequence that is not there.
const codeNotFound = 10057

func endings() []behaviour {
	return []behaviour{
		{"a document with a TTL is there until then, and leaves no marker", ttlExpires},
		{"a write over a document with a TTL ends the TTL", ttlIsOverwritten},
		{"a TTL under a second is refused", ttlIsWholeSeconds},
		{"a deletion of what is gone is refused", deletionOfWhatIsGone},
		{"a deletion by sequence leaves a newer document of the subject", deletionIsExact},
	}
}

func ttlExpires(t *testing.T, p *place) {
	j := p.jobs(t)
	msg := guarded(j.doc("succeeded", "a"), j.filter("a"), 0)
	msg.Header.Set("Nats-TTL", "2s")
	j.put(t, msg)
	at := j.last(t, j.doc("succeeded", "a")).Time
	natstest.Eventually(t, soon, func() bool { return j.last(t, j.doc("succeeded", "a")) == nil })
	require.GreaterOrEqual(t, time.Since(at), 2*time.Second)
	t.Logf("gone %s after it was written", time.Since(at))
	require.Zero(t, j.messages(t))
	j.put(t, guarded(j.doc("ready", "a"), j.filter("a"), 0))
}

func ttlIsOverwritten(t *testing.T, p *place) {
	j := p.jobs(t)
	short := plain(j.doc("succeeded", "a"))
	short.Header.Set("Nats-TTL", "1s")
	j.put(t, short)
	seq := j.put(t, plain(j.doc("succeeded", "a")))
	other := plain(j.doc("succeeded", "b"))
	other.Header.Set("Nats-TTL", "2s")
	j.put(t, other)
	natstest.Eventually(t, soon, func() bool { return j.last(t, j.doc("succeeded", "b")) == nil })
	require.Equal(t, seq, j.last(t, j.doc("succeeded", "a")).Seq)
}

func ttlIsWholeSeconds(t *testing.T, p *place) {
	j := p.jobs(t)
	msg := plain(j.doc("succeeded", "a"))
	msg.Header.Set("Nats-TTL", "500ms")
	require.Equal(t, 10165, j.refused(t, msg))
}

func deletionOfWhatIsGone(t *testing.T, p *place) {
	j := p.jobs(t)
	seq := j.put(t, plain(j.doc("ready", "a")))
	require.Zero(t, j.remove(t, seq))
	require.Equal(t, codeNotFound, j.remove(t, seq))
	require.Equal(t, codeNotFound, j.remove(t, seq+100))
}

func deletionIsExact(t *testing.T, p *place) {
	j := p.jobs(t)
	old := j.put(t, plain(j.doc("ready", "a")))
	seq := j.put(t, plain(j.doc("ready", "a")))
	require.Equal(t, codeNotFound, j.remove(t, old))
	require.Equal(t, seq, j.last(t, j.doc("ready", "a")).Seq)
}
