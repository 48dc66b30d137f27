package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const requestTimeout = 10 * time.Second

// body is about 200 bytes of JSON, as a job's input.
var body = []byte(`{"to":"somebody@example.com","subject":"hello","template":"welcome","vars":{"name":"Somebody","plan":"pro","trial":true},"padding":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`)

// subject of the raw program's messages.
func (e *env) subject(state string, i int) string {
	return e.ns + "-raw." + state + "." + strconv.Itoa(i)
}

// filter is what guards a record of the raw program.
func (e *env) filter(i int) string { return e.subject("*", i) }

// rawStream makes a stream like jetcrew's, and a consumer of what is ready.
func (e *env) rawStream(ctx context.Context) (jetstream.Consumer, error) {
	name := strings.ToUpper(e.ns) + "_RAW"
	_, err := e.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{e.ns + "-raw.>"}, Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1,
		Storage: jetstream.FileStorage, Replicas: e.cfg.Replicas, AllowDirect: true, AllowRollup: true,
		AllowMsgTTL: true, AllowMsgSchedules: true, AllowAtomicPublish: true,
	})
	if err != nil {
		return nil, err
	}
	return e.js.CreateConsumer(ctx, name, jetstream.ConsumerConfig{
		Durable: "ready", FilterSubject: e.ns + "-raw.ready.>", AckPolicy: jetstream.AckExplicitPolicy,
		MaxAckPending: -1, MaxWaiting: 8192,
	})
}

// guarded is a message with the headers that jetcrew's writes have.
func guarded(subject, filter string, seq uint64) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: body, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader:     []string{strconv.FormatUint(seq, 10)},
		jetstream.ExpectedLastSubjSeqSubjHeader: []string{filter},
	}}
}

func (e *env) rawReady(i int) *nats.Msg { return guarded(e.subject("ready", i), e.filter(i), 0) }

// publish sends n messages, pipelined, and waits until the server has them all.
func (e *env) publish(ctx context.Context, n int, message func(i int) *nats.Msg) error {
	futures := make([]jetstream.PubAckFuture, n)
	for i := range n {
		var err error
		if futures[i], err = e.js.PublishMsgAsync(message(i), jetstream.WithStallWait(requestTimeout)); err != nil {
			return err
		}
	}
	for _, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// rawDrain consumes n messages, publishes one guarded record for each, and acks, with a number of goroutines.
func (e *env) rawDrain(ctx context.Context, c jetstream.Consumer, n, slots int, got func(i int)) error {
	it, err := c.Messages(jetstream.PullMaxMessages(2 * slots))
	if err != nil {
		return err
	}
	defer it.Stop()
	stop := context.AfterFunc(ctx, it.Stop)
	defer stop()
	msgs := make(chan jetstream.Msg)
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range slots {
		wg.Go(func() {
			for m := range msgs {
				if err := e.rawSettle(m, got); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	for range n {
		var m jetstream.Msg
		if m, err = it.Next(); err != nil {
			break
		}
		msgs <- m
	}
	close(msgs)
	wg.Wait()
	if n := failed.Load(); n > 0 && err == nil {
		err = fmt.Errorf("%d records were not written", n)
	}
	return err
}

func (e *env) rawSettle(m jetstream.Msg, got func(i int)) error {
	i, err := strconv.Atoi(m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:])
	if err != nil {
		return err
	}
	got(i)
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	f, err := e.js.PublishMsgAsync(guarded(e.subject("done", i), e.filter(i), meta.Sequence.Stream), jetstream.WithStallWait(requestTimeout))
	if err != nil {
		return err
	}
	select {
	case <-f.Ok():
		return m.Ack()
	case err := <-f.Err():
		return err
	}
}

// rawSchedule is a server-side schedule that carries the message itself.
func (e *env) rawSchedule(i int, at time.Time) *nats.Msg {
	return &nats.Msg{Subject: e.subject("alarm", i), Data: body, Header: nats.Header{
		"Nats-Schedule":        []string{"@at " + at.UTC().Format(time.RFC3339Nano)},
		"Nats-Schedule-Target": []string{e.subject("ready", i)},
	}}
}
