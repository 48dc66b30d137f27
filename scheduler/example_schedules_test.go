package scheduler_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/scheduler"
)

// A worker declares its schedules when it starts, and deletes those of its own that it declares no more. It may do so
// in any number of processes at once: they declare the same.
func ExampleStore_Reconcile() {
	srv, err := embedded.Start(embedded.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()
	ctx := context.Background()
	c, err := client.Connect(ctx, client.Config{URLs: []string{srv.URL()}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	schedules, err := scheduler.OpenStore(ctx, c.Conn(), scheduler.StoreConfig{Clock: c.Store()})
	if err != nil {
		log.Fatal(err)
	}
	declare := func(specs ...scheduler.Spec) {
		report, err := schedules.Reconcile(ctx, "acme", "billing", specs)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("created", report.Created, "unchanged", report.Unchanged, "deleted", report.Deleted)
	}

	invoices := scheduler.Cron("30 2 1 * *", scheduler.Spec{
		Name: "invoices", Type: "invoice", Timezone: "Europe/Paris",
		Input: jsontext.Value(`{"format":"pdf"}`), Overlap: scheduler.OverlapSkip,
	})
	rates := scheduler.Every(15*time.Minute, scheduler.Spec{
		Name: "rates", Type: "fetch", Queue: "io", MissedPolicy: scheduler.MissedSkip,
	})
	declare(invoices, rates) // as one version does
	declare(invoices)        // and as the next one does, which needs no rates
	// Output:
	// created [invoices rates] unchanged [] deleted []
	// created [] unchanged [invoices] deleted [rates]
}

// The next instants of an expression can be looked at before there is a schedule of it.
func ExamplePreview() {
	now := time.Date(2030, time.March, 30, 12, 0, 0, 0, time.UTC)
	fires, err := scheduler.Preview(scheduler.Cron("30 2 * * *", scheduler.Spec{
		Name: "nightly", Type: "report", Timezone: "Europe/Paris",
	}), now, 2)
	if err != nil {
		log.Fatal(err)
	}
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		log.Fatal(err)
	}
	for _, at := range fires {
		fmt.Println(at.In(paris).Format(time.DateTime)) // there is no 02:30 in the night in which clocks go forward
	}
	// Output:
	// 2030-03-31 03:00:00
	// 2030-04-01 02:30:00
}
