package streams

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// cursorVersion is the format of the cursors that this program hands out, and the only one that it takes back.
const cursorVersion = 1

// cursor says where a listing goes on. To callers it is opaque text.
type cursor struct {
	V     int    `json:"v"`
	Below uint64 `json:"below"` // what is older than this sequence comes next
	Of    string `json:"of"`    // the listing that it belongs to
}

// errCursor: a page that goes on where another listing stopped would lack jobs, and nobody would notice.
var errCursor = &job.FieldError{
	Field: "cursor", Reason: "is not one of this listing: go on with the next of a page that was asked for with the same filter and order",
}

func (c cursor) text() (string, error) {
	b, err := job.Encode(c)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// readCursor takes back a cursor of the listing that of names.
func readCursor(text, of string) (cursor, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return cursor{}, errCursor
	}
	var c cursor
	if job.Decode(b, &c) != nil || c.V != cursorVersion || c.Below == 0 || c.Of != of {
		return cursor{}, errCursor
	}
	return c, nil
}

// listingOf names a listing: its jobs and their order, but not how many are on a page, nor how much is told of them.
func (n names) listingOf(r *job.ListRequest) (string, error) {
	f := &r.Filter
	b, err := job.Encode(struct {
		Namespace string
		Spaces    []string
		AllSpaces bool
		Queue     string
		Type      string
		Statuses  []job.Status
		From, To  int64
		Order     job.Order
	}{n.ns, distinct(f.Spaces), f.AllSpaces, f.Queue, f.Type, distinct(f.Statuses), f.From.UnixNano(), f.To.UnixNano(), r.Order})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), nil
}

// distinct are the elements of a set, in order.
func distinct[E string | job.Status](all []E) []E {
	return slices.Compact(slices.Sorted(slices.Values(all)))
}
