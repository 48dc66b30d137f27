package streams

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestAWalkMeetsEveryDocumentInItsScope(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n, rnd: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	for range 4 {
		c.grow(300, 300)
	}
	c.flush()
	stored := n.stored()
	all := n.jobsOf(stored)
	last := stored[len(stored)-1].seq
	rapid.Check(t, func(rt *rapid.T) {
		f := drawFilter(rt, all)
		within := rapid.SampledFrom([][]job.Status{nil, job.OpCancel.Statuses(), job.OpRequeue.Statuses()}).Draw(rt, "within")
		sc := scopeOf(&f, within)
		if len(sc.states) == 0 {
			rt.Skip()
		}
		from := rapid.Uint64Range(1, last).Draw(rt, "from")
		top := rapid.Uint64Range(from-1, last+10).Draw(rt, "top")
		w := &scopeWalk{s: n.Store, scope: sc, from: from, top: top, msgs: uint64(len(stored))}
		if rapid.Bool().Draw(rt, "unfiltered") {
			w.sources = []*source{{batch: 100, next: from}}
		} else {
			for _, subject := range sc.filters(n.names, 8) {
				w.sources = append(w.sources, &source{filter: subject, batch: rapid.IntRange(1, 300).Draw(rt, "batch"), next: from})
			}
		}
		var got, want []uint64
		for more := true; more; {
			var msgs []message
			var err error
			msgs, more, err = w.some(t.Context(), rapid.IntRange(1, 500).Draw(rt, "n"))
			require.NoError(rt, err)
			for _, m := range msgs {
				got = append(got, m.seq)
			}
		}
		for _, m := range stored {
			sub, err := n.names.parse(m.subject)
			if err == nil && m.seq >= from && m.seq <= top && slices.Contains(sc.states, sub.state) &&
				(f.AllSpaces || slices.Contains(f.Spaces, sub.key.Space)) &&
				(f.Queue == "" || strings.HasPrefix(sub.tail, queueToken(f.Queue)+".")) {
				want = append(want, m.seq)
			}
		}
		require.Equal(rt, want, got)
	})
}

// A filter that matches nearly everything is not worth what it costs the server.
func TestAWalkFiltersWhatPays(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n}
	const many, few = walkBatch + 1000, 100
	for range many {
		c.doc(c.plainKey(), "t", stateSucceeded, 1)
	}
	for range few {
		c.doc(c.plainKey(), "t", stateDead, 1)
	}
	c.flush()
	all, err := n.extent(t.Context())
	require.NoError(t, err)
	for _, test := range []struct {
		statuses []job.Status
		filter   string
		met      int
	}{
		{[]job.Status{job.Succeeded}, "", many},
		{[]job.Status{job.Dead}, "jetcrew.job.dead.*.*.*", few},
	} {
		f := job.Filter{AllSpaces: true, Statuses: test.statuses}
		w := &scopeWalk{s: n.Store, scope: scopeOf(&f, nil), from: all.first, top: all.last, msgs: all.msgs}
		met := 0
		for more := true; more; {
			var msgs []message
			msgs, more, err = w.some(t.Context(), 1000)
			require.NoError(t, err)
			met += len(msgs)
			require.LessOrEqual(t, w.looked, w.toLook())
		}
		require.Equal(t, test.met, met)
		require.Len(t, w.sources, 1)
		require.Equal(t, test.filter, w.sources[0].filter)
		require.Equal(t, w.looked, w.toLook())
	}
}

// A batch whose answer does not come in time is asked for again, as a smaller one.
func TestAWalkAsksForLessWhereAnswersAreLost(t *testing.T) {
	t.Parallel()
	p := server(t)
	var d natstest.FaultDialer
	n := p.open(t, d.Option())
	c := &crowd{n: n}
	keys := c.begin(stateDead, 300)
	all, err := n.extent(t.Context())
	require.NoError(t, err)
	d.DropFromServer(1, func(frame []byte) bool { return bytes.Contains(frame, []byte("204 EOB")) })
	f := job.Filter{AllSpaces: true, Statuses: []job.Status{job.Dead}}
	w := &scopeWalk{s: n.Store, scope: scopeOf(&f, nil), from: all.first, top: all.last, msgs: all.msgs}
	met := 0
	for more := true; more; {
		var msgs []message
		msgs, more, err = w.some(t.Context(), 1000)
		require.NoError(t, err)
		met += len(msgs)
	}
	require.Equal(t, len(keys), met)
	require.Less(t, w.sources[0].batch, walkBatch)
}

func TestAnInstantIsFound(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	at, err := n.sequenceAt(t.Context(), n.Now())
	require.NoError(t, err)
	require.Equal(t, nothing, at, "there is nothing yet")
	c := &crowd{n: n, rnd: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	for range 5 {
		c.grow(100, 500)
	}
	c.flush()
	stored := n.stored()
	for _, m := range stored {
		for _, at := range []time.Time{job.Millis(m.time), job.CeilMillis(m.time)} {
			i := slices.IndexFunc(stored, func(o message) bool { return !o.time.Before(at) })
			want := nothing
			if i >= 0 {
				want = stored[i].seq
			}
			got, err := n.sequenceAt(t.Context(), at)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	got, err := n.sequenceAt(t.Context(), stored[len(stored)-1].time.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, nothing, got)
	got, err = n.sequenceAt(t.Context(), time.Unix(0, 0))
	require.NoError(t, err)
	require.Equal(t, stored[0].seq, got)
}

func TestNothingIsInAGap(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n, rnd: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	for range 10 {
		c.grow(5, c.rnd.IntN(3000))
	}
	c.flush()
	stored := n.stored()
	last := stored[len(stored)-1].seq
	rapid.Check(t, func(rt *rapid.T) {
		low := rapid.Uint64Range(1, last).Draw(rt, "low")
		below := rapid.Uint64Range(low, last+1).Draw(rt, "below")
		width := rapid.Uint64Range(1, 300).Draw(rt, "width")
		down, err := n.gap(t.Context(), low, below, width)
		require.NoError(rt, err)
		require.True(rt, low <= down && down <= below)
		newest := low
		for _, m := range stored {
			require.False(rt, down <= m.seq && m.seq < below, "%d is in the gap from %d to %d", m.seq, down, below)
			if m.seq >= low && m.seq < below {
				newest = m.seq
			}
		}
		require.LessOrEqual(rt, down-newest, width)
	})
}
