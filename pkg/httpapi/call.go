package httpapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/redact"
)

// Waiter is what calls ask of the job queue beside Jobs; *client.Client is one.
type Waiter interface {
	Wait(ctx context.Context, key job.Key) (*job.Job, error)
	Cancel(ctx context.Context, key job.Key) (job.Changed, error)
}

// CallsConfig of Calls. Guards and Jobs are required.
type CallsConfig struct {
	// Guards are those of the process: whoever else has runs in it, such as a worker, has the same.
	Guards *guard.Guards
	Jobs   Waiter
	// Timeout is how long a call's key is held at the most, if nobody ever finds that its job has ended. Defaults to 24 h.
	Timeout time.Duration
	// Logger takes what goes wrong. Defaults to none.
	Logger zerolog.Logger

	lostAfter time.Duration // defaults to callLost
}

const (
	// callLost is how long a key may have a holder without a job, until whoever began it is taken to have died before it
	// put the job in. That somebody else then puts in the same job is harmless: it is the same job.
	callLost = 5 * time.Second
	// callCancelTimeout bounds the cancelling of a job whose run was cancelled.
	callCancelTimeout = 30 * time.Second
)

// Calls are the calls of a process that go on. Each has a run of the guards until its job has ended, whether or not
// somebody still waits for the answer. It is safe for concurrent use, and has to be closed, when its server begins to
// stop: those who wait are then told where their jobs are. Keys that are held then stay held, so that another process
// finds their jobs.
type Calls struct {
	cfg    CallsConfig
	ctx    context.Context // ends at Close
	cancel context.CancelFunc

	mu sync.Mutex // so that none begins after Close
	wg sync.WaitGroup
}

// NewCalls asks the store nothing yet.
func NewCalls(cfg CallsConfig) *Calls {
	setDefault(&cfg.Timeout, 24*time.Hour)
	setDefault(&cfg.lostAfter, callLost)
	c := &Calls{cfg: cfg}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close gives up the waiting for all jobs, and leaves them alone. Calling it again does nothing.
func (c *Calls) Close() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.wg.Wait()
}

// ending is how a call's job ended.
type ending struct {
	job *job.Job
	err error
}

// errCallsEnded: the process is ending.
var errCallsEnded = errors.New("the calls of this process have ended")

// follow waits for the end of a run's job, and then ends the run. It answers where the end is told.
func (c *Calls) follow(run *guard.Run) <-chan ending {
	out := make(chan ending, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		out <- ending{err: errCallsEnded}
		return out
	}
	key := run.Info().Job
	over := make(chan struct{})
	c.wg.Go(func() {
		select {
		case <-run.Context().Done():
			if errors.Is(context.Cause(run.Context()), job.ErrCancelRequested) {
				c.cancelJob(key)
			}
		case <-over:
		}
	})
	c.wg.Go(func() {
		defer close(over)
		j, err := c.cfg.Jobs.Wait(c.ctx, key)
		if c.ctx.Err() != nil {
			out <- ending{err: errCallsEnded}
			return // its key is for others to take over
		}
		c.end(run, j, err)
		out <- ending{j, err}
	})
	return out
}

// cancelJob cancels the job of a run that was cancelled from elsewhere.
func (c *Calls) cancelJob(key job.Key) {
	ctx, cancel := context.WithTimeout(c.ctx, callCancelTimeout)
	defer cancel()
	if _, err := c.cfg.Jobs.Cancel(ctx, key); err != nil && !errors.Is(err, job.ErrNotFound) && c.ctx.Err() == nil {
		c.cfg.Logger.Warn().Str("error", redact.Text(err.Error())).Stringer("job", key).Msg("the job of a cancelled run could not be cancelled")
	}
}

// end ends a run. What was written for the caller is kept, where the guards keep anything: whoever asks again gets it.
// After any other end the same key runs again.
func (c *Calls) end(run *guard.Run, j *job.Job, err error) {
	if err == nil && (j.Status == job.Succeeded || j.Status == job.Failed) {
		kept := job.Job{ID: j.ID, Space: j.Space, Queue: j.Queue, Type: j.Type, Status: j.Status, Attempts: j.Attempts}
		if kept.Result = j.Result; j.Status == job.Failed {
			kept.Error = j.Error
		}
		if encoded, err := job.Encode(&kept); err == nil { // it was read from the same
			_ = run.Finish(encoded) // End answers its error
		}
	}
	if err := run.End(); err != nil {
		c.cfg.Logger.Warn().Str("error", redact.Text(err.Error())).Str("run", run.ID()).Msg("the run of a call was not ended as it has to be")
	}
}

// taken is the call that has a key.
type taken struct {
	guard.Holder
	job *job.Job // nil: it is not there
}

// holder finds the call that has a key, and its job; nil if nobody has it any more. Where there is no job yet, it waits a
// while for one.
func (c *Calls) holder(ctx context.Context, jobs Jobs, key guard.Key) (*taken, error) {
	tick := time.NewTicker(max(c.cfg.lostAfter/20, time.Millisecond))
	defer tick.Stop()
	var first guard.Holder
	for since := time.Now(); ; {
		h, ok, err := c.cfg.Guards.Holder(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("whose key it is: %w", err)
		}
		if !ok || h.Ended {
			return nil, nil
		}
		j, err := jobs.Get(ctx, h.Job)
		switch {
		case err == nil:
			return &taken{h, j}, nil
		case !errors.Is(err, job.ErrNotFound):
			return nil, err
		case h != first:
			first, since = h, time.Now()
		case time.Since(since) >= c.cfg.lostAfter:
			return &taken{Holder: h}, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
