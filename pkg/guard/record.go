package guard

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Keys of the adapter are guard/key/<kind>/<hash> for run keys, and guard/run/<hash> for the runs themselves, by which they
// are cancelled. Neither begins like the keys of package kv.
const (
	keyPrefix = "guard/key/"
	runPrefix = "guard/run/"
)

// record is what stands under both.
type record struct {
	RunID  string  `json:"runId"`
	Nonce  string  `json:"nonce"` // of the one who wrote it: no two write the same bytes
	Space  string  `json:"space"`
	Type   string  `json:"type"`
	Caller string  `json:"caller,omitzero"`
	Job    job.Key `json:"job,omitzero"`

	// Of a run.
	Lifetime  string `json:"lifetime,omitzero"`
	Cancelled bool   `json:"cancelled,omitzero"`

	// Of a run key that its caller named.
	Digest string         `json:"digest,omitzero"`
	Ended  bool           `json:"ended,omitzero"`
	Result jsontext.Value `json:"result,omitzero"` // once it has ended

	// Extra holds the members that this version does not know: a cancel writes them back.
	Extra jsontext.Value `json:",embed"`
}

func (r record) encode() (string, error) {
	b, err := job.Encode(r)
	if err != nil {
		return "", fmt.Errorf("write the record: %w", err)
	}
	return string(b), nil
}

func decodeRecord(raw string) (record, error) {
	var r record
	if err := job.Decode([]byte(raw), &r); err != nil {
		return r, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if r.RunID == "" || r.Nonce == "" {
		return r, ErrForeign
	}
	return r, nil
}

// place is where a run stands in the store.
func place(space, runID string) string { return runPrefix + digest(space, runID) }
