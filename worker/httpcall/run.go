package httpcall

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Body is what is sent, as JSON: the job as its record has it, without what only concerns the queue.
type Body struct {
	ID          string         `json:"id"`
	Space       string         `json:"space"`
	Queue       string         `json:"queue"`
	Type        string         `json:"type"`
	Environment string         `json:"environment,omitzero"`
	Trigger     job.Trigger    `json:"trigger,omitzero"`
	RunID       string         `json:"runId,omitzero"`
	Attempt     int            `json:"attempt"`
	MaxAttempts int            `json:"maxAttempts,omitzero"`
	Missed      int            `json:"missed,omitzero"`
	CreatedAt   time.Time      `json:"createdAt,omitzero"`
	DueAt       time.Time      `json:"dueAt,omitzero"`
	Deadline    time.Time      `json:"deadline,omitzero"`
	Input       jsontext.Value `json:"input"`
}

// MessageID is the webhook-id of a job: the same for all its attempts, and another one for a job that is put in
// under the same name once the record of the first is gone.
func MessageID(j *job.Job) string {
	h := sha256.New()
	for _, part := range []string{j.Queue, j.Space, j.ID, j.CreatedAt.UTC().Format(job.TimeFormat)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return "job_" + hex.EncodeToString(h.Sum(nil)[:16])
}

// Run sends a job, and is a handler for worker.Handle.
func (c *Caller) Run(ctx context.Context, j *job.Job, input jsontext.Value) (any, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, DefaultTimeout, fmt.Errorf("no answer within %s", DefaultTimeout))
		defer cancel()
	}
	req, err := c.request(ctx, j, input)
	if err != nil {
		return nil, job.GiveUp(err)
	}
	// The transport and no client: redirects are answers, and errors do not quote the URL.
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	defer resp.Body.Close()
	return c.answer(ctx, resp)
}

func (c *Caller) request(ctx context.Context, j *job.Job, input jsontext.Value) (*http.Request, error) {
	if len(input) == 0 {
		input = jsontext.Value("{}")
	}
	body, err := job.Encode(Body{
		ID: j.ID, Space: j.Space, Queue: j.Queue, Type: j.Type, Environment: j.Environment, Trigger: j.Trigger, RunID: j.RunID,
		Attempt: j.Attempts, MaxAttempts: j.MaxAttempts, Missed: j.Missed,
		CreatedAt: j.CreatedAt, DueAt: j.DueAt, Deadline: j.Deadline, Input: input,
	})
	if err != nil {
		return nil, fmt.Errorf("write the job as JSON: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the URL cannot be asked")
	}
	now := time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/plain;q=0.5, */*;q=0.1")
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	if j.Trace.Parent != "" {
		req.Header.Set("Traceparent", j.Trace.Parent)
	}
	if j.Trace.State != "" {
		req.Header.Set("Tracestate", j.Trace.State)
	}
	id := MessageID(j)
	req.Header.Set(standardwebhooks.HeaderWebhookID, id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, fmt.Sprint(now.Unix()))
	if c.sign != nil {
		signature, err := c.sign.Sign(id, now, body)
		if err != nil {
			return nil, errors.New("the job cannot be signed")
		}
		req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	}
	return req, nil
}

// unanswered is the error of a request without an answer. If nobody could be connected to, nothing was begun,
// and the attempt is given back; after that the receiver may have done anything.
func (c *Caller) unanswered(ctx context.Context, err error) error {
	host := c.url.Host
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("no answer from %s: %s", host, cause) // not wrapped: the host would be lost
	}
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.Is(err, ErrPrivateAddress):
		return fmt.Errorf("%s is not called: %w", host, err)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("%s is not known: %w", host, err)
	case errors.As(err, &op) && op.Op == "dial":
		return job.Refuse(job.CodeOverCapacity, fmt.Sprintf("%s cannot be connected to: %s", host, err))
	}
	return fmt.Errorf("no answer from %s: %w", host, err)
}
