package pinned

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// The answers of the server that the design knows by their numbers.
const (
	codeWrongLastSequence = 10071 // the guard does not hold
	codeInFlight          = 10164 // another guarded write on this filter is in flight; clusters only
	codeWrongStream       = 10060 // a write that expects another stream
	codeNoMessage         = 10037 // a read of what is not there
)

// guarded makes a write that names the last sequence that it saw on a filter.
func guarded(subject, filter string, last uint64) *nats.Msg {
	msg := nats.NewMsg(subject)
	msg.Data = []byte(`{}`)
	msg.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(last, 10))
	msg.Header.Set("Nats-Expected-Last-Subject-Sequence-Subject", filter)
	return msg
}

// codeOf is the API error code of err, 0 if it has none.
func codeOf(err error) int {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return int(api.ErrorCode)
	}
	var js jetstream.JetStreamError
	if errors.As(err, &js) && js.APIError() != nil {
		return int(js.APIError().ErrorCode)
	}
	return 0
}

// write publishes and returns the sequence, or the code with which the server
// refused. What is refused only because another write is in flight is tried
// again.
func write(ctx context.Context, js jetstream.JetStream, msg *nats.Msg) (seq uint64, code, inFlight int, err error) {
	for {
		ack, err := js.PublishMsg(ctx, msg)
		switch code := codeOf(err); {
		case err == nil:
			return ack.Sequence, 0, inFlight, nil
		case code == codeInFlight:
			inFlight++
		case code != 0:
			return 0, code, inFlight, nil
		default:
			return 0, 0, inFlight, err
		}
	}
}

// put makes a write that the server takes.
func (j *jobs) put(t *testing.T, msg *nats.Msg) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	seq, code, _, err := write(ctx, j.js, msg)
	require.NoError(t, err)
	require.Zero(t, code, "refused")
	return seq
}

// refused makes a write that the server refuses, and returns the code.
func (j *jobs) refused(t *testing.T, msg *nats.Msg) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	seq, code, _, err := write(ctx, j.js, msg)
	require.NoError(t, err)
	require.NotZero(t, code, "taken as %d", seq)
	return code
}

// plain makes a write without a guard.
func plain(subject string) *nats.Msg {
	msg := nats.NewMsg(subject)
	msg.Data = []byte(`{}`)
	return msg
}

// stored is a message as the leader has it.
type stored struct {
	Seq  uint64    `json:"seq"`
	Hdrs []byte    `json:"hdrs"`
	Data []byte    `json:"data"`
	Time time.Time `json:"time"`
}

// last reads the last message of a subject from the leader; nil if there is
// none. A direct get may be answered by a replica that is behind.
func (j *jobs) last(t *testing.T, subject string) *stored {
	t.Helper()
	var resp struct {
		Error   *jetstream.APIError `json:"error"`
		Message *stored             `json:"message"`
	}
	j.request(t, "STREAM.MSG.GET."+j.name(), map[string]any{"last_by_subj": subject}, &resp)
	if resp.Error != nil {
		require.EqualValues(t, codeNoMessage, resp.Error.ErrorCode, resp.Error.Description)
		return nil
	}
	return resp.Message
}

func (j *jobs) request(t *testing.T, subject string, body, answer any) {
	t.Helper()
	req, err := json.Marshal(body)
	require.NoError(t, err)
	msg, err := j.nc.Request("$JS.API."+subject, req, soon)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(msg.Data, answer))
}

// remove deletes by sequence, and returns the code with which that was refused.
// The client's own DeleteMsg has the code in the text of its error only.
func (j *jobs) remove(t *testing.T, seq uint64) int {
	t.Helper()
	var resp struct {
		Error   *jetstream.APIError `json:"error"`
		Success bool                `json:"success"`
	}
	j.request(t, "STREAM.MSG.DELETE."+j.name(), map[string]any{"seq": seq, "no_erase": true}, &resp)
	if resp.Error != nil {
		return int(resp.Error.ErrorCode)
	}
	require.True(t, resp.Success)
	return 0
}
