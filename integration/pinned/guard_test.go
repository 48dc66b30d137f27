package pinned

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func guards() []behaviour {
	return []behaviour{
		{"a guard with a wildcard takes the right sequence only", guardTakesTheRightSequence},
		{"a guard with a wildcard counts the last write in any state", guardCountsAcrossStates},
		{"a guard falls back to what remains after a deletion", guardFallsBack},
		{"a guard sees no other job", guardSeesNoOtherJob},
	}
}

func guardTakesTheRightSequence(t *testing.T, p *place) {
	j := p.jobs(t)
	first := j.put(t, guarded(j.doc("ready", "a"), j.filter("a"), 0))
	require.Equal(t, codeWrongLastSequence, j.refused(t, guarded(j.doc("ready", "a"), j.filter("a"), 0)))
	require.Equal(t, codeWrongLastSequence, j.refused(t, guarded(j.doc("running", "a"), j.filter("a"), first+1)))
	require.Nil(t, j.last(t, j.doc("running", "a")))
	require.Equal(t, first+1, j.put(t, guarded(j.doc("running", "a"), j.filter("a"), first)))
}

func guardCountsAcrossStates(t *testing.T, p *place) {
	j := p.jobs(t)
	last := uint64(0)
	for _, state := range []string{"ready", "running", "due", "ready", "running", "succeeded"} {
		seen := last
		last = j.put(t, guarded(j.doc(state, "a"), j.filter("a"), seen))
		require.Equal(t, codeWrongLastSequence, j.refused(t, guarded(j.doc("cancelled", "a"), j.filter("a"), seen)), state)
	}
}

func guardFallsBack(t *testing.T, p *place) {
	j := p.jobs(t)
	ready := j.put(t, guarded(j.doc("ready", "a"), j.filter("a"), 0))
	running := j.put(t, guarded(j.doc("running", "a"), j.filter("a"), ready))
	require.Zero(t, j.remove(t, running))
	require.Equal(t, codeWrongLastSequence, j.refused(t, guarded(j.doc("dead", "a"), j.filter("a"), running)))
	dead := j.put(t, guarded(j.doc("dead", "a"), j.filter("a"), ready))
	require.Zero(t, j.remove(t, ready)) // an older one changes nothing
	require.Zero(t, j.remove(t, j.put(t, guarded(j.doc("ready", "a"), j.filter("a"), dead))))
	require.Zero(t, j.remove(t, dead))
	j.put(t, guarded(j.doc("ready", "a"), j.filter("a"), 0))
}

func guardSeesNoOtherJob(t *testing.T, p *place) {
	j := p.jobs(t)
	a := j.put(t, guarded(j.doc("ready", "a"), j.filter("a"), 0))
	j.put(t, guarded(j.doc("ready", "b"), j.filter("b"), 0))
	j.put(t, plain(j.wake("a")))
	j.put(t, plain(j.alarm("a", "w")))
	j.put(t, guarded(j.doc("running", "a"), j.filter("a"), a))
}
