package streams

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Whatever comes, in whatever order, the jobs are found by identity, stand in order, and are counted.
func TestJobsAreKeptAsAMapKeepsThem(t *testing.T) {
	t.Parallel()
	x, model := newJobs(), make(map[ident]entry)
	seq := uint64(0)
	random := func() entry {
		seq += 1 + rand.Uint64N(3)
		return entry{
			ident: ident{fmt.Sprint("q", rand.IntN(5)), fmt.Sprint("s", rand.IntN(20)), fmt.Sprint("a long id, so that there is something to tidy up: ", rand.IntN(200))},
			state: states[rand.IntN(len(states))], typ: fmt.Sprint("t", rand.IntN(9)), seq: seq, rev: seq,
			updated: int64(seq), created: 1 + rand.Int64N(1000), run: 1 + rand.Int64N(1000), attempts: rand.IntN(9), max: 1 + rand.IntN(9),
			bad: rand.IntN(2) == 0, told: rand.IntN(2) == 0,
		}
	}
	check := func() {
		x.sort()
		require.Equal(t, len(model), x.live())
		require.True(t, slices.IsSorted(x.order.seq))
		counts := make(map[string]int)
		for id, e := range model {
			i, ok := x.find(id)
			require.True(t, ok)
			require.Equal(t, e, x.entry(int(x.row(i).pos)))
			j, ok := x.bySeq(e.seq)
			require.True(t, ok)
			require.Equal(t, i, j)
			if e.state != stateDeleted {
				counts[string(e.state)+e.queue]++
			}
		}
		for q := range 5 {
			for _, st := range states[:len(states)-1] {
				queue := fmt.Sprint("q", q)
				_, n := x.classes.fitting(&job.Filter{AllSpaces: true, Queue: queue, Statuses: []job.Status{filterStatus(st)}})
				require.Equal(t, counts[string(st)+queue], n)
			}
		}
	}
	var late []entry
	put := func(e entry) {
		i, ok := x.find(e.ident)
		switch {
		case !ok:
			x.insert(&e)
		case model[e.ident].seq < e.seq:
			x.replace(i, &e)
		default:
			return
		}
		model[e.ident] = e
	}
	for range 20 {
		for range 10_000 {
			switch rand.IntN(12) {
			case 0:
				late = append(late, random())
			case 1:
				for _, e := range late { // events come out of order
					put(e)
				}
				late = late[:0]
			case 2, 3, 4:
				e := random()
				if i, ok := x.find(e.ident); ok {
					x.remove(i)
					delete(model, e.ident)
				}
			default:
				put(random())
			}
			x.tidy()
		}
		check()
	}
	require.Less(t, x.order.len(), 3*len(model)+8192, "what is dead goes")
	require.Less(t, x.ids.bytes(), 4<<20)
	for id := range model {
		if rand.IntN(20) > 0 {
			i, _ := x.find(id)
			x.remove(i)
			delete(model, id)
		}
	}
	x.repack()
	check()
	require.Less(t, x.bytes(), 2<<20)
	for id := range model {
		i, _ := x.find(id)
		x.remove(i)
		delete(model, id)
	}
	check()
	require.Len(t, x.classes.ids, 0)
	require.Len(t, x.classes.types.ids, 0, "no name is kept for nobody")
}

func filterStatus(s state) job.Status { return job.Status(s) }

// A page is what sorting everything would have on it, from any offset or cursor.
func TestAPageIsAPartOfTheSortedWhole(t *testing.T) {
	t.Parallel()
	for range 60 {
		x := newJobs()
		n := 1 + rand.IntN(5000)
		var all []entry
		for i := range n {
			e := entry{
				ident: ident{"q", "s", fmt.Sprint(i)}, state: stateReady, seq: uint64(i + 1),
				updated: int64(1000 + i), created: 1 + rand.Int64N(int64(n)), run: 1 + rand.Int64N(5),
			}
			x.insert(&e)
			all = append(all, e)
		}
		for _, o := range []job.Order{job.ByUpdated, job.ByCreated, job.ByRun} {
			for _, asc := range []bool{true, false} {
				key := func(e entry) int64 { return map[job.Order]int64{job.ByCreated: e.created, job.ByRun: e.run}[o] }
				slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a.seq, b.seq)) })
				if !asc {
					slices.Reverse(all)
				}
				req := job.ListRequest{Filter: job.Filter{AllSpaces: true}, Order: o, Ascending: asc, Limit: 1 + rand.IntN(100)}
				if rand.IntN(2) == 0 {
					req.Filter.From = time.UnixMilli(1000)
				}
				req.Offset = rand.IntN(n + 2)
				require.Equal(t, all[min(req.Offset, n):min(req.Offset+req.Limit, n)], chosen(t, x, &req, nil, n))
				req.Offset = 0
				from := rand.IntN(n)
				after := &bookmark{key(all[from]), all[from].seq}
				require.Equal(t, all[from+1:min(from+1+req.Limit, n)], chosen(t, x, &req, after, n))
			}
		}
	}
}

func chosen(t *testing.T, x *jobs, req *job.ListRequest, after *bookmark, n int) []entry {
	t.Helper()
	places, total, _ := x.choose(req, after)
	require.Equal(t, n, total)
	got := []entry{}
	for _, pos := range places {
		got = append(got, x.entry(pos))
	}
	return got
}

func TestSelectLowestSelectsTheLowest(t *testing.T) {
	t.Parallel()
	for range 2000 {
		s := make([]ranked, 2+rand.IntN(200))
		for i := range s {
			s[i] = ranked{rand.Int64N(10), int64(i)}
		}
		want := slices.SortedFunc(slices.Values(s), compareRanked)
		k := 1 + rand.IntN(len(s)-1)
		selectLowest(s, k)
		slices.SortFunc(s[:k], compareRanked)
		require.Equal(t, want[:k], s[:k])
	}
}

func TestCoverageAdvancesOnlyOverWhatIsAccountedFor(t *testing.T) {
	t.Parallel()
	for range 200 {
		c := coverage{seen: make(map[uint64]struct{})}
		known := make(map[uint64]bool)
		for range 300 {
			if s := 1 + rand.Uint64N(200); rand.IntN(30) > 0 {
				c.add(s)
				known[s] = true
			} else if s <= c.upTo+20 {
				c.through(s)
				for i := range s {
					known[i+1] = true
				}
			}
			upTo := uint64(0)
			for known[upTo+1] {
				upTo++
			}
			require.Equal(t, upTo, c.upTo)
			for _, s := range c.missing(200) {
				require.False(t, known[s])
			}
			require.Len(t, c.missing(200), 200-len(known))
		}
	}
}

func TestExpiriesComeInOrder(t *testing.T) {
	t.Parallel()
	var h expiries
	for range 1000 {
		h.push(expiring{rand.Int64N(100), 0})
	}
	for last := int64(math.MinInt64); len(h) > 0; {
		e := h.pop()
		require.GreaterOrEqual(t, e.at, last)
		last = e.at
	}
}
