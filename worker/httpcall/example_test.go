package httpcall_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
	"github.com/jetcrew/jetcrew/worker/httpcall"
)

const exampleSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// A URL handles the jobs of a type. The receiver verifies the signature before it looks at the body.
func ExampleNew() {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verifier, err := standardwebhooks.NewWebhook(exampleSecret)
		if err != nil {
			http.Error(w, "no secret", http.StatusInternalServerError)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || verifier.Verify(body, r.Header) != nil {
			http.Error(w, "not for me", http.StatusUnauthorized)
			return
		}
		var in httpcall.Body
		if job.Decode(body, &in) != nil || in.ID == "gone" {
			http.Error(w, "nobody of that name", http.StatusGone)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"notified":%s}`, in.Input)
	}))
	defer receiver.Close()

	notify, err := httpcall.New(httpcall.Config{URL: receiver.URL + "/hook", Secret: exampleSecret, AllowPrivate: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer notify.Close()
	for _, id := range []string{"ann", "gone"} {
		j, err := runOne(notify, job.Spec{ID: id, Type: "notify", Input: jsontext.Value(`{"to":"ann"}`)})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(id, j.Status, string(j.Result), j.Attempts)
	}
	// Output:
	// ann succeeded {"notified":{"to":"ann"}} 1
	// gone dead  1
}

// runOne runs a worker until the job has ended.
func runOne(c *httpcall.Caller, spec job.Spec) (*job.Job, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := embedded.Start(embedded.Config{})
	if err != nil {
		return nil, err
	}
	defer server.Shutdown()
	nc, err := nats.Connect(server.URL())
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	queue, err := streams.Open(ctx, nc, streams.Config{})
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	w, err := worker.New(queue, worker.Config{})
	if err != nil {
		return nil, err
	}
	worker.Handle(w, spec.Type, c.Run, worker.WithTimeout(httpcall.DefaultTimeout))

	enqueued, err := queue.Enqueue(ctx, spec)
	if err != nil {
		return nil, err
	}
	running, drain := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	defer func() { drain(); <-ended }()
	for {
		j, err := queue.Get(ctx, enqueued.Key)
		if err != nil || j.Status.Terminal() {
			return j, err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
