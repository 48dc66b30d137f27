package streams

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// What tracing costs each job where there is none, and where there is: the message of an enqueue and of a claim, and the
// reading of a delivery. None of it goes to the server.
func BenchmarkDocument(b *testing.B) {
	nc := natstest.Connect(b, natstest.Embedded(b).URL())
	s, err := Open(context.Background(), nc, Config{})
	require.NoError(b, err)
	b.Cleanup(s.Close)
	for _, c := range []struct {
		name string
		spec job.Spec
	}{
		{"plain", job.Spec{ID: "1", Type: "email", Input: []byte(`{"to":"somebody"}`)}},
		{"traced", job.Spec{ID: "1", Type: "email", Input: []byte(`{"to":"somebody"}`), Trace: job.Trace{Parent: aTrace.Parent}}},
		{"stateful", job.Spec{ID: "1", Type: "email", Input: []byte(`{"to":"somebody"}`), Trace: aTrace}},
	} {
		e, err := s.newEnqueue(c.spec)
		require.NoError(b, err)
		sent, err := s.message(e.write())
		require.NoError(b, err)
		b.Run("enqueue/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e, err := s.newEnqueue(c.spec)
				require.NoError(b, err)
				_, err = s.message(e.write())
				require.NoError(b, err)
			}
		})
		b.Run("deliver/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := s.names.record(message{subject: sent.Subject, header: sent.Header, data: sent.Data, seq: 1})
				require.NoError(b, r.bad)
			}
		})
		r := s.names.record(message{subject: sent.Subject, header: sent.Header, data: sent.Data, seq: 1})
		b.Run("claim/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d := r.next(newWriter())
				_, err := s.message(write{tail: r.tail, state: stateRunning, doc: &d, guard: 1})
				require.NoError(b, err)
			}
		})
	}
}
