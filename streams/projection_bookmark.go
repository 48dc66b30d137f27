package streams

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// bookmark is where a listing goes on: behind the job that was sorted by this key and had this sequence.
type bookmark struct {
	key int64
	seq uint64
}

// bookmarkVersion is the first byte of a cursor of a projection's.
const bookmarkVersion = 'p'

const bookmarkSize = 1 + 8 + 8 + 8

func (c bookmark) encode(req *job.ListRequest) string {
	b := append(make([]byte, 0, bookmarkSize), bookmarkVersion)
	b = binary.BigEndian.AppendUint64(b, asked(req))
	b = binary.BigEndian.AppendUint64(b, uint64(c.key))
	b = binary.BigEndian.AppendUint64(b, c.seq)
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseBookmark(s string, req *job.ListRequest) (bookmark, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != bookmarkSize || b[0] != bookmarkVersion {
		return bookmark{}, &job.FieldError{Field: "cursor", Reason: "is not one that an earlier page of this listing answered"}
	}
	if binary.BigEndian.Uint64(b[1:]) != asked(req) {
		return bookmark{}, &job.FieldError{Field: "cursor", Reason: "is from a listing with another filter or order"}
	}
	return bookmark{int64(binary.BigEndian.Uint64(b[9:])), binary.BigEndian.Uint64(b[17:])}, nil
}

// asked is a hash of what a cursor is tied to: the filter and the order.
func asked(req *job.ListRequest) uint64 {
	f := &req.Filter
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %t %q %q %q %d %d %s %t",
		slices.Compact(slices.Sorted(slices.Values(f.Spaces))), f.AllSpaces, f.Queue, f.Type,
		slices.Compact(slices.Sorted(slices.Values(f.Statuses))), millis(f.From), millis(f.To), req.Order, req.Ascending)
	return h.Sum64()
}
