package pinned

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

func reads() []behaviour {
	return []behaviour{
		{"a multi-subject get answers every document of every job", multiGetAnswersAll},
		{"a multi-subject get that finds nothing says 404", multiGetFindsNothing},
		{"a multi-subject get skips what is not there", multiGetSkips},
		{"a multi-subject get answers 1,024 documents and no more", multiGetIsBounded},
		{"a multi-subject get takes more filters than documents", multiGetTakesManyFilters},
	}
}

// multiLast asks for the last message of each subject that a filter matches. It
// returns the messages, and the answer that ends them.
func (j *jobs) multiLast(t *testing.T, filters ...string) (docs []*nats.Msg, end *nats.Msg) {
	t.Helper()
	req, err := json.Marshal(map[string]any{"multi_last": filters})
	require.NoError(t, err)
	return j.ask(t, "$JS.API.DIRECT.GET."+j.name(), req)
}

// ask publishes a request and collects what comes until a message with a
// status.
func (j *jobs) ask(t *testing.T, subject string, req []byte) (msgs []*nats.Msg, end *nats.Msg) {
	t.Helper()
	inbox := j.nc.NewInbox()
	sub, err := j.nc.SubscribeSync(inbox)
	require.NoError(t, err)
	defer func() { require.NoError(t, sub.Unsubscribe()) }()
	require.NoError(t, j.nc.PublishRequest(subject, inbox, req))
	for {
		msg, err := sub.NextMsg(soon)
		if errors.Is(err, nats.ErrNoResponders) { // see awaitInterest
			require.NoError(t, j.nc.PublishRequest(subject, inbox, req))
			continue
		}
		require.NoError(t, err)
		if msg.Header.Get("Status") != "" {
			return msgs, msg
		}
		msgs = append(msgs, msg)
	}
}

// settled waits until every replica that may answer has so many messages.
func (j *jobs) settled(t *testing.T) {
	t.Helper()
	natstest.Eventually(t, soon, func() error {
		info, err := j.stream.Info(t.Context())
		if err != nil || info.Cluster == nil {
			return err
		}
		for _, r := range info.Cluster.Replicas {
			if !r.Current || r.Lag != 0 {
				return fmt.Errorf("%s is behind", r.Name)
			}
		}
		return nil
	})
}

func requireEnd(t *testing.T, end *nats.Msg, status, description string) {
	t.Helper()
	require.Equal(t, status, end.Header.Get("Status"))
	require.Equal(t, description, end.Header.Get("Description"))
	require.Empty(t, end.Data)
}

func subjects(docs []*nats.Msg) []string {
	names := make([]string, len(docs))
	for i, m := range docs {
		names[i] = m.Header.Get("Nats-Subject")
	}
	return names
}

func multiGetAnswersAll(t *testing.T, p *place) {
	j := p.jobs(t)
	a := j.put(t, plain(j.doc("ready", "a")))
	b := j.put(t, plain(j.doc("due", "b")))
	j.put(t, plain(j.doc("ready", "unasked")))
	claim := j.put(t, guarded(j.doc("running", "a"), j.filter("a"), a))
	j.put(t, plain(j.doc("ready", "unasked")))
	last := claim + 1
	j.settled(t)

	docs, end := j.multiLast(t, j.filter("a"), j.filter("b"))
	require.Equal(t, []string{j.doc("ready", "a"), j.doc("due", "b"), j.doc("running", "a")}, subjects(docs), "in the order of sequences")
	for i, seq := range []uint64{a, b, claim} {
		h := docs[i].Header
		require.Equal(t, fmt.Sprint(seq), h.Get("Nats-Sequence"))
		require.Equal(t, j.name(), h.Get("Nats-Stream"))
		require.Equal(t, fmt.Sprint(2-i), h.Get("Nats-Num-Pending"))
		require.NotEmpty(t, h.Get("Nats-Time-Stamp"))
		require.Equal(t, `{}`, string(docs[i].Data))
	}
	require.Equal(t, "0", docs[0].Header.Get("Nats-Last-Sequence"))
	require.Equal(t, fmt.Sprint(b), docs[2].Header.Get("Nats-Last-Sequence"))
	require.Equal(t, fmt.Sprint(a), docs[2].Header.Get("Nats-Expected-Last-Subject-Sequence"), "a document's own headers are there")

	requireEnd(t, end, "204", "EOB")
	require.Equal(t, "0", end.Header.Get("Nats-Num-Pending"))
	require.Equal(t, fmt.Sprint(claim), end.Header.Get("Nats-Last-Sequence"))
	require.Equal(t, fmt.Sprint(last), end.Header.Get("Nats-UpTo-Sequence"), "the stream's last, matched or not")
}

func multiGetFindsNothing(t *testing.T, p *place) {
	j := p.jobs(t)
	for range 2 { // of an empty stream, and of one with other messages
		docs, end := j.multiLast(t, j.filter("a"), j.filter("b"))
		require.Empty(t, docs)
		requireEnd(t, end, "404", "No Results")
		require.Len(t, end.Header, 2, "nothing but the status: %v", end.Header)
		j.put(t, plain(j.doc("ready", "c")))
		j.settled(t)
	}
}

func multiGetSkips(t *testing.T, p *place) {
	j := p.jobs(t)
	j.put(t, plain(j.doc("ready", "b")))
	j.settled(t)
	docs, end := j.multiLast(t, j.filter("a"), j.filter("b"), j.filter("c"))
	require.Equal(t, []string{j.doc("ready", "b")}, subjects(docs))
	requireEnd(t, end, "204", "EOB")
}

func multiGetIsBounded(t *testing.T, p *place) {
	const most = 1024
	j := p.jobs(t)
	filters := make([]string, 0, most+1)
	for i := range most {
		id := fmt.Sprint("job", i)
		j.put(t, plain(j.doc("ready", id)))
		filters = append(filters, j.filter(id))
	}
	j.settled(t)
	docs, end := j.multiLast(t, filters...)
	require.Len(t, docs, most)
	requireEnd(t, end, "204", "EOB")

	j.put(t, plain(j.doc("running", "job0")))
	j.settled(t)
	docs, end = j.multiLast(t, filters...)
	require.Empty(t, docs)
	requireEnd(t, end, "413", "Too Many Results")
}

func multiGetTakesManyFilters(t *testing.T, p *place) {
	j := p.jobs(t)
	j.put(t, plain(j.doc("ready", "job7")))
	j.settled(t)
	filters := make([]string, 2000)
	for i := range filters {
		filters[i] = j.filter(fmt.Sprint("job", i))
	}
	docs, end := j.multiLast(t, filters...)
	require.Len(t, docs, 1)
	requireEnd(t, end, "204", "EOB")
}
