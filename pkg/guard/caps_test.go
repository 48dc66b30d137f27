package guard_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestContractE2_CapsAreKeptPerSpaceAndPerProcess(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		capped := func(c *guard.Config) { c.Calls, c.CallsPerSpace, c.Renders = 3, 2, 1 }
		here, there := guards(t, client(), capped), guards(t, client(), capped)
		call := func(space string) guard.Request { return guard.Request{Space: space, Type: "t"} }
		render := guard.Request{Kind: guard.KindRender, Space: "a", Type: "t"}

		first := begin(t, here, call("a"))
		begin(t, here, call("a"))
		refused(t, here, call("a"), job.CodeOverCapacity)
		begin(t, here, call("b"))
		refused(t, here, call("c"), job.CodeOverCapacity)

		page := begin(t, here, render) // of a budget of its own
		refused(t, here, render, job.CodeOverCapacity)
		free(t, there, call("a")) // of another process
		free(t, there, render)

		require.NoError(t, first.End())
		refused(t, here, render, job.CodeOverCapacity)
		begin(t, here, call("c"))
		refused(t, here, call("a"), job.CodeOverCapacity)
		require.NoError(t, page.End())
		begin(t, here, render)
	})
}

func TestContractE2_WhatIsRefusedTakesNoPlace(t *testing.T) {
	t.Parallel()
	g := guards(t, kv.NewMemory(kv.MemoryOptions{}), func(c *guard.Config) { c.Calls, c.CallsPerSpace = 2, 2 })
	q := request(derived(t, `{}`))
	begin(t, g, q)
	for range 5 {
		refused(t, g, q, job.CodeDuplicate)
	}
	begin(t, g, request(derived(t, `{"other":1}`)))
	refused(t, g, request(derived(t, `{"third":1}`)), job.CodeOverCapacity)
	require.Len(t, g.Active(), 2)
}

func TestContractE2_ARaceForTheLastPlaceIsWonOnce(t *testing.T) {
	t.Parallel()
	const places = 7
	g := guards(t, kv.NewMemory(kv.MemoryOptions{}), func(c *guard.Config) { c.Renders = places })
	var won atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			r, err := g.Begin(t.Context(), guard.Request{Kind: guard.KindRender, Space: "a", Type: "t"})
			if err == nil {
				won.Add(1)
				t.Cleanup(func() { assert.NoError(t, r.End()) })
			}
		})
	}
	all.Wait()
	require.EqualValues(t, places, won.Load())
}

func TestContractE6_ActiveAndGetSayWhatGoesOn(t *testing.T) {
	t.Parallel()
	g := guards(t, kv.NewMemory(kv.MemoryOptions{}))
	require.Empty(t, g.Active())
	q := request(derived(t, `{}`))
	q.RunID, q.Job = "one", job.Key{Queue: "q", Space: "acme", ID: "1"}
	one := begin(t, g, q)
	two := begin(t, g, guard.Request{Kind: guard.KindRender, Space: "b", Type: "draw"})
	require.Equal(t, []guard.Info{one.Info(), two.Info()}, g.Active())

	got, ok := g.Get("acme", "one")
	require.True(t, ok)
	require.Equal(t, guard.Info{
		RunID: "one", Kind: guard.KindCall, Space: "acme", Type: "pay", Caller: "ada", Job: q.Job,
		Started: got.Started, Timeout: long,
	}, got)
	require.False(t, got.Started.IsZero())
	_, ok = g.Get("b", two.ID())
	require.True(t, ok)
	_, ok = g.Get("b", "one")
	require.False(t, ok, "it is another space's")

	require.NoError(t, one.End())
	require.Equal(t, []guard.Info{two.Info()}, g.Active())
	_, ok = g.Get("acme", "one")
	require.False(t, ok)
}
