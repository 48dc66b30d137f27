package queuetest

import (
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// traces: what a job comes from is told to each of its attempts; what is no trace is none, and refuses no job.
func traces(e *env) {
	c := e.worker("w")
	s := e.spec("a")
	s.Trace = job.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "vendor=some"}
	e.enqueue(s)
	for range 2 {
		cl := e.claim(c)
		require.Equal(e, s.Trace, cl.Job().Trace)
		require.Equal(e, s.Trace, e.settle(cl, job.Fail(0, "again")).Trace)
	}
	require.Equal(e, s.Trace, e.claim(c).Job().Trace)

	s = e.spec("b")
	s.Trace = job.Trace{Parent: "garbage", State: "vendor=some"}
	e.enqueue(s)
	require.Zero(e, e.claim(c).Job().Trace)
}
