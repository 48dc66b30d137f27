package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
)

const (
	roleWorker = "worker"
	workerEnv  = "JETCREW_CHAOS_WORKER"
	jobType    = "work"
)

// roles are further ones, of files with a build tag.
var roles []natstest.Option

func TestMain(m *testing.M) {
	natstest.Main(m, append(roles, natstest.Role(roleWorker, runWorker), natstest.Role(roleCrowd, runCrowd))...)
}

// workerConfig is what a worker process is told.
type workerConfig struct {
	ID       string
	URL      string
	Ledger   string
	Queue    string
	Slots    int
	Lease    time.Duration
	Replicas int
	Ping     time.Duration // how often the server has to give a sign of life; 0: as the client library has it

	Credentials string // a file; empty: none are needed
}

// input says what a job's handler is to do, in this order.
type input struct {
	Fails int    `json:"fails,omitempty"` // fail in the first so many attempts
	Sleep int    `json:"sleep,omitempty"` // take so many milliseconds
	Tires int    `json:"tires,omitempty"` // fail then, in the first so many attempts
	Until string `json:"until,omitempty"` // go on until this file is there
	Dies  string `json:"dies,omitempty"`  // end the process: see die
	// Freeze stops the whole process (SIGSTOP), once, when the handler has returned from a first attempt and
	// before its outcome is settled.
	Freeze bool `json:"freeze,omitempty"`
}

// runWorker is a worker process: it takes jobs until SIGTERM, and leaves at once at a second one. It sweeps as
// an elected worker would, but oftener.
func runWorker() int {
	var cfg workerConfig
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &cfg); err != nil {
		return complain(err)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM)
	book, err := openLedger(cfg.Ledger, cfg.ID)
	if err != nil {
		return complain(err)
	}
	nc, err := connect(cfg.URL, cfg.options()...)
	if err != nil {
		return complain(err)
	}
	defer nc.Close()
	log := zerolog.New(os.Stdout).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	store, err := streams.Open(context.Background(), nc, streams.Config{
		Replicas: cfg.Replicas, Lease: cfg.Lease, Logger: log,
	})
	if err != nil {
		return complain(err)
	}
	defer store.Close()
	w, err := worker.New(recordingQueue{store, book, new(sync.Once)}, worker.Config{
		ID: cfg.ID, Queues: map[string]int{cfg.Queue: cfg.Slots}, Lease: cfg.Lease, Grace: 5 * time.Second, Logger: log,
	})
	if err != nil {
		return complain(err)
	}
	handle(w, book)
	ctx, stop := context.WithCancel(context.Background())
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	beside.Go(func() { sweep(ctx, store, log) })
	go func() { // lives as long as the process
		<-signals
		stop()
		<-signals
		w.Kill()
	}()
	if err := w.Run(ctx); err != nil {
		return complain(err)
	}
	return 0
}

func (c *workerConfig) options() (out []nats.Option) {
	if c.Ping != 0 {
		out = append(out, nats.PingInterval(c.Ping))
	}
	if c.Credentials != "" {
		out = append(out, nats.UserCredentials(c.Credentials))
	}
	return out
}

// handle has a worker do what a job's input says, and write it down.
func handle(w *worker.Worker, book *ledger) {
	worker.Handle(w, jobType, func(ctx context.Context, j *job.Job, in input) (any, error) {
		book.write(entry{Event: eventStart, Job: j.ID, Attempt: j.Attempts})
		err := in.work(ctx, j.Attempts)
		e := entry{Event: eventDone, Job: j.ID, Attempt: j.Attempts}
		if err != nil {
			e.Error = err.Error()
		}
		book.write(e)
		return map[string]any{"worker": book.worker, "attempt": j.Attempts}, err
	})
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// connect is how workers and producers connect. They stay with the servers that they were given, so that a test
// decides who sees a server die.
func connect(url string, more ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append([]nats.Option{
		nats.Timeout(5 * time.Second),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(20*time.Millisecond, 20*time.Millisecond),
		nats.IgnoreDiscoveredServers(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the default one prints
	}, more...)...)
}

func sweep(ctx context.Context, store *streams.Store, log zerolog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		round, cancel := context.WithTimeout(ctx, 10*time.Second)
		if _, err := store.Sweep(round); err != nil && ctx.Err() == nil {
			log.Warn().Err(err).Msg("housekeeping")
		}
		cancel()
	}
}

func (in input) work(ctx context.Context, attempt int) error {
	if attempt <= in.Fails {
		return fmt.Errorf("attempt %d fails, as it was told to", attempt)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Duration(in.Sleep) * time.Millisecond); time.Now().Before(end) || attempt > in.Tires && in.waits(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if in.Dies != "" {
		in.die()
	}
	if attempt <= in.Tires {
		return fmt.Errorf("attempt %d fails at its end, as it was told to", attempt)
	}
	return nil
}

func (in input) waits() bool {
	if in.Until == "" {
		return false
	}
	_, err := os.Stat(in.Until)
	return errors.Is(err, os.ErrNotExist)
}

// recordingQueue writes into the ledger what became of every settlement. Whatever else it is asked goes to the
// store as it is.
type recordingQueue struct {
	job.Queue
	book   *ledger
	freeze *sync.Once
}

func (q recordingQueue) Consume(ctx context.Context, cfg job.ConsumerConfig) (job.Consumer, error) {
	c, err := q.Queue.Consume(ctx, cfg)
	if err != nil {
		return nil, err
	}
	q.book.write(entry{Event: eventUp})
	return recordingConsumer{c, q}, nil
}

type recordingConsumer struct {
	job.Consumer
	queue recordingQueue
}

func (c recordingConsumer) Claim(ctx context.Context) (job.Claim, error) {
	cl, err := c.Consumer.Claim(ctx)
	if err != nil {
		return nil, err
	}
	return recordingClaim{cl, c.queue, cl.Job()}, nil
}

type recordingClaim struct {
	job.Claim
	queue recordingQueue
	job   *job.Job
}

func (c recordingClaim) Settle(ctx context.Context, o job.Outcome) (*job.Job, error) {
	if c.freezes() {
		c.queue.freeze.Do(func() {
			if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
				panic(err)
			}
			// Other threads may run on for an instant; this one waits for the stop.
			time.Sleep(100 * time.Millisecond)
		})
	}
	j, err := c.Claim.Settle(ctx, o)
	e := entry{Job: c.job.ID, Attempt: c.job.Attempts, Status: string(o.Status)}
	switch {
	case err == nil:
		e.Event, e.Status = eventSettled, string(j.Status)
	case errors.Is(err, job.ErrLeaseLost):
		e.Event, e.Error = eventLost, err.Error()
	default:
		e.Event, e.Error = eventRefused, err.Error()
	}
	c.queue.book.write(e)
	return j, err
}

func (c recordingClaim) freezes() bool {
	var in input
	return c.job.Attempts == 1 && json.Unmarshal(c.job.Input, &in) == nil && in.Freeze
}
