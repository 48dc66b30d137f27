package jobtest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/jobtest"
	"github.com/jetcrew/jetcrew/worker"
)

// signUp is a program under test: it enqueues a job.
func signUp(ctx context.Context, jobs job.Producer, address string) error {
	_, err := jobs.Enqueue(ctx, job.Spec{ID: "welcome-" + address, Type: "email", Delay: time.Hour})
	return err
}

// A test of a program that enqueues, and of the handler of what it enqueues, without a server and without waiting.
func Example() {
	ctx := context.Background()
	q := jobtest.New()
	if err := signUp(ctx, q, "ada"); err != nil {
		log.Fatal(err)
	}
	for _, j := range q.Jobs("email") {
		fmt.Println("enqueued", j.ID)
	}

	down := true
	handlers := func(w *worker.Worker) {
		worker.Handle(w, "email", func(context.Context, *job.Job, struct{}) (any, error) {
			if down {
				return nil, errors.New("mail server is down")
			}
			return "sent", nil
		})
	}
	q.Advance(time.Hour)
	for range 2 {
		ran, err := q.RunDue(ctx, handlers)
		if err != nil {
			log.Fatal(err)
		}
		for _, j := range ran {
			fmt.Printf("%s %s %s%s\n", j.ID, j.Status, j.Error, string(j.Result))
		}
		down = false
		q.Advance(time.Hour) // past the backoff
	}
	// Output:
	// enqueued welcome-ada
	// welcome-ada pending mail server is down
	// welcome-ada succeeded "sent"
}
