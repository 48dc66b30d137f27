package streams

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// benchJobs are how many jobs there are to list: what JETCREW_BENCH_JOBS says ("10000,1000000"), or else 10,000 and,
// but for short runs, 100,000.
func benchJobs(b *testing.B) []int {
	b.Helper()
	list := os.Getenv("JETCREW_BENCH_JOBS")
	switch {
	case list != "":
	case testing.Short():
		list = "10000"
	default:
		list = "10000,100000"
	}
	var out []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		require.NoError(b, err)
		out = append(out, n)
	}
	return out
}

// benchStore holds jobs that have succeeded, each with two sequences before it that hold nothing any more, and ten dead
// ones.
func benchStore(b *testing.B, jobs int) *Store {
	b.Helper()
	nc := natstest.Connect(b, natstest.Embedded(b).URL())
	s, err := Open(b.Context(), nc, Config{})
	require.NoError(b, err)
	b.Cleanup(s.Close)
	input := `{"text":"` + strings.Repeat("x", 300) + `"}`
	send := func(subject, body string) {
		if s.js.PublishAsyncPending() >= maxInFlight/2 {
			<-s.js.PublishAsyncComplete()
		}
		_, err := s.js.PublishMsgAsync(&nats.Msg{Subject: subject, Data: []byte(body)})
		require.NoError(b, err)
	}
	for i := range jobs {
		st := stateSucceeded
		if i%(jobs/10) == jobs/20 {
			st = stateDead
		}
		hole := s.names.wake("q.default.hole" + strconv.Itoa(i%100))
		send(hole, "")
		send(hole, "")
		send(s.names.job(st, tail(job.Key{Queue: fmt.Sprint("q", i%100), Space: "default", ID: fmt.Sprint(i)})),
			`{"v":1,"rev":3,"type":"t","attempts":1,"input":`+input+`}`)
	}
	<-s.js.PublishAsyncComplete()
	return s
}

func BenchmarkList(b *testing.B) {
	for _, jobs := range benchJobs(b) {
		b.Run(fmt.Sprint(jobs), func(b *testing.B) {
			s := benchStore(b, jobs)
			all := job.ListRequest{Filter: job.Filter{AllSpaces: true}}
			dead := job.ListRequest{Filter: job.Filter{AllSpaces: true, Statuses: []job.Status{job.Dead}}}
			few := job.ListRequest{Filter: job.Filter{AllSpaces: true, Queue: "q7"}}
			deep := all
			for range min(99, jobs/job.DefaultPage-1) {
				page, err := s.List(b.Context(), deep)
				require.NoError(b, err)
				deep.Cursor = page.Next
			}
			for _, bench := range []struct {
				name string
				req  job.ListRequest
				want int
			}{
				{"first_page", all, job.DefaultPage},
				{"page_100", deep, job.DefaultPage},
				{"ten_dead", dead, 10},
				{"one_queue_of_100", few, job.DefaultPage},
			} {
				b.Run(bench.name, func(b *testing.B) {
					looked := 0
					for b.Loop() {
						page, err := s.List(b.Context(), bench.req)
						require.NoError(b, err)
						require.Len(b, page.Jobs, bench.want)
						looked = page.Looked
					}
					b.ReportMetric(float64(looked), "looked/page")
				})
			}
		})
	}
}
