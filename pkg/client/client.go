// Package client is what a program uses to put jobs into jetcrew, to read their records, and to run the fleet: it
// connects to NATS, opens the store, and enqueues; it lists and steers jobs, sets queues, and tells what happens.
//
// A connection that is lost comes back by itself, for ever; each outage is logged once when it begins and
// once when it ends. No error and no log line holds a password or a token, nor a URL with one in it.
//
// The key/value store that jobs' handlers have (package kv) is there for producers and operators as well: Client.KV.
//
// Running jobs is the business of package worker, which takes the Store of a Client.
package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/streams"
)

// Config says how to connect. The zero value connects to nats://127.0.0.1:4222 without credentials.
type Config struct {
	// URLs of the NATS servers. Defaults to nats://127.0.0.1:4222. Not together with Context.
	URLs []string
	// Context is the name of a NATS context, as the nats CLI keeps them. Defaults to none.
	Context string

	// Credentials is a credentials file, NKey a file with an nkey seed. At most one identity is given:
	// Credentials, NKey, User with Password, or Token. Default to none.
	Credentials string
	NKey        string
	User        string
	Password    string
	Token       string

	// TLSCA, TLSCert and TLSKey are PEM files. Default to none: the system's authorities, no certificate.
	TLSCA   string
	TLSCert string
	TLSKey  string

	// InboxPrefix begins the subjects that replies come to, so that a server can keep one role's replies
	// from another. Defaults to _INBOX.
	InboxPrefix string
	// Name of the connection, as the server lists it. Defaults to "jetcrew".
	Name string
	// ConnectTimeout bounds the wait for each server. Defaults to 5 s; the context's deadline cuts it.
	ConnectTimeout time.Duration

	// Streams says how the store is made and kept. Its Logger is replaced with Logger.
	Streams streams.Config
	// Middleware stands around every enqueue, the first outermost. Defaults to none.
	Middleware []func(next EnqueueFunc) EnqueueFunc
	// Logger takes connection events and what the store has to say. Defaults to none.
	Logger zerolog.Logger
	// Options are given to the NATS client last, such as the in-process option of an embedded server.
	Options []nats.Option
}

// EnqueueFunc enqueues specs, one or many, and answers in their order. Middleware may change the specs
// (they are the caller's own slice in a bulk call: copy before changing), refuse them with an error, or
// look at what became of them.
type EnqueueFunc func(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error)

// Client is a connection with an open store. It is safe for concurrent use.
type Client struct {
	nc     *nats.Conn
	store  *streams.Store
	events *events
	names  subjects
	wrap   []func(next EnqueueFunc) EnqueueFunc
	bucket *lazyBucket
	values *kv.Store
	close  sync.Once
}

// Connect connects and opens the store. Errors to branch on: nats.ErrNoServers, nats.ErrAuthorization,
// streams.ErrNoJetStream, streams.ErrServerTooOld, *PermissionError.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	ev := newEvents(cfg.Logger)
	nc, err := connect(ctx, cfg, ev)
	if err != nil {
		return nil, err
	}
	cfg.Streams.Logger = cfg.Logger
	names := newSubjects(nc, cfg.Streams.Namespace)
	ctx, done := ev.guard(ctx, names.opening)
	defer done()
	store, err := streams.Open(ctx, nc, cfg.Streams)
	if err != nil {
		err = ev.explain(ctx, err)
		ev.closing()
		nc.Close()
		ev.wait()
		return nil, fmt.Errorf("open the store: %w", err)
	}
	c := &Client{nc: nc, store: store, events: ev, names: names, wrap: cfg.Middleware}
	c.bucket = newLazyBucket(c, &cfg)
	c.values = kv.New(c.bucket, kv.Options{})
	return c, nil
}

// Store is the job queue itself, for a worker or an operator.
func (c *Client) Store() *streams.Store { return c.store }

// Conn is the NATS connection. It belongs to the client: Close closes it.
func (c *Client) Conn() *nats.Conn { return c.nc }

// Now is the store's clock.
func (c *Client) Now() time.Time { return c.store.Now() }

// Get reads a job's record. An empty space is "default"; an empty queue means whichever has the job, and a
// *job.AmbiguousError if several do. job.ErrNotFound if none does.
func (c *Client) Get(ctx context.Context, key job.Key) (*job.Job, error) {
	if key.Space == "" {
		key.Space = job.DefaultSpace
	}
	ctx, done := c.events.guard(ctx, c.names.reading)
	defer done()
	j, err := c.store.Get(ctx, key)
	return j, c.events.explain(ctx, err)
}

// Wait waits for a job's end and answers its record: events tell of it, and the record is read each second in
// case one is lost. The key is as for Get. Errors to branch on: job.ErrNotFound, *PermissionError, and the
// context's.
func (c *Client) Wait(ctx context.Context, key job.Key) (*job.Job, error) {
	ctx, done := c.events.guard(ctx, c.names.reading)
	defer done()
	j, err := c.store.Wait(ctx, key)
	return j, c.events.explain(ctx, err)
}

// Close ends the store's work and the connection. Calling it again does nothing.
func (c *Client) Close() {
	c.close.Do(func() {
		c.bucket.close()
		c.store.Close()
		c.events.closing()
		c.nc.Close()
		c.events.wait()
	})
}
