package kvbucket

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Headers of a message in the bucket. KV-Operation and Nats-Rollup are those of every KV client.
const (
	headerNonce   = "Jetcrew-Nonce"   // names the write, so that its writer finds it again
	headerExpires = "Jetcrew-Expires" // the exact end of the lifetime, in Unix milliseconds of the store's clock

	// headerAgain is that of a second write of the same, right over the first. It says what the first one was guarded by.
	headerAgain = "Jetcrew-Again"
	againPlain  = "any"

	headerOperation = "KV-Operation"
	headerRollup    = "Nats-Rollup"
	operationDelete = "DEL"
	operationPurge  = "PURGE"
)

// entry is the last message of a key. The zero value is that of a key without one.
type entry struct {
	seq     uint64 // its revision; 0 where there is none
	value   []byte
	marker  bool // of a delete, not a value
	nonce   string
	expires time.Time // zero: never
	stored  time.Time
	guarded bool // its writer named the revision that it replaced
	guard   uint64
	again   uint64 // the sequence of the first, where it is a second write of the same: the guard is then that of the first
}

// there reports whether the key has a value at an instant: one that is neither deleted nor lapsed.
func (e *entry) there(now time.Time) bool {
	return e.seq != 0 && !e.marker && (e.expires.IsZero() || now.Before(e.expires))
}

// readEntry takes apart what a client stored. What others wrote by the stock tools counts as well, with their lifetime.
func readEntry(h nats.Header, data []byte, seq uint64, stored time.Time) *entry {
	e := &entry{seq: seq, value: data, nonce: header(h, headerNonce), stored: stored}
	switch header(h, headerOperation) {
	case operationDelete, operationPurge:
		e.marker = true
	}
	if header(h, jetstream.MarkerReasonHeader) != "" { // the server's own, of a bucket that had limit markers
		e.marker = true
	}
	// What is not there is not parsed: an error costs more than the rest.
	if text := header(h, jetstream.ExpectedLastSubjSeqHeader); text != "" {
		if guard, err := strconv.ParseUint(text, 10, 64); err == nil {
			e.guarded, e.guard = true, guard
		}
	}
	if text := header(h, headerAgain); text != "" && e.guarded {
		guard, err := strconv.ParseUint(text, 10, 64)
		e.again, e.guarded, e.guard = e.guard, err == nil, guard
	}
	if text := header(h, headerExpires); text != "" {
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
			e.expires = time.UnixMilli(ms).UTC()
			return e
		}
	}
	if ttl := header(h, jetstream.MsgTTLHeader); ttl != "" {
		e.expires = expiry(ttl, stored)
	}
	return e
}

// expiry is when the server removes a message with a TTL: seconds, or a duration as Go writes it.
func expiry(ttl string, stored time.Time) time.Time {
	d, err := time.ParseDuration(ttl)
	if err != nil {
		s, err := strconv.ParseInt(ttl, 10, 64)
		if err != nil || s <= 0 || s > math.MaxInt64/int64(time.Second) { // "never"
			return time.Time{}
		}
		d = time.Duration(s) * time.Second
	}
	return stored.Add(d.Truncate(time.Second))
}

// header is h.Get without its search for other spellings.
func header(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// directEntry reads the answer to a direct get.
func directEntry(m *nats.Msg) (*entry, error) {
	seq, err := strconv.ParseUint(header(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("direct get: sequence: %w", err)
	}
	stored, err := time.Parse(time.RFC3339Nano, header(m.Header, jetstream.TimeStampHeaer))
	if err != nil {
		return nil, fmt.Errorf("direct get: time: %w", err)
	}
	return readEntry(m.Header, m.Data, seq, stored), nil
}
