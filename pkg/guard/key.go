package guard

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// MaxKey is how many bytes the caller's or a shared key may have.
const MaxKey = 1024

// Key says which runs are the same: one of them goes on at a time. The zero Key is none.
type Key struct {
	place  string // in the store
	named  bool   // by the caller: what its run answers may be answered again
	digest string // of what is asked, where the key does not tell
}

// IsZero reports whether the key is none.
func (k Key) IsZero() bool { return k.place == "" }

// Derived is the key of what is asked: of the same type, by the same caller, with the same input. In what order the
// members of an input's objects stand makes no difference, nor do spaces; no input is {}. Numbers are the same if they are
// written alike (1 and 1.0 are two). The caller may be empty.
func Derived(space, typ, caller string, input jsontext.Value) (Key, error) {
	if err := names(space, typ); err != nil {
		return Key{}, err
	}
	if err := checkCaller(caller); err != nil {
		return Key{}, err
	}
	canonical, err := canonicalInput(input)
	if err != nil {
		return Key{}, err
	}
	return Key{place: keyPrefix + "derived/" + digest(space, typ, caller, canonical)}, nil
}

// Named is the key that a caller named, and the caller's own: what others name the same is another key. The caller must
// not be empty. Whoever names it again for another type or input is refused with CodeKeyReused.
func Named(space, caller, name, typ string, input jsontext.Value) (Key, error) {
	if err := names(space, typ); err != nil {
		return Key{}, err
	}
	if err := job.ValidateName("caller", caller, job.MaxName); err != nil {
		return Key{}, err
	}
	if err := job.ValidateName("idempotencyKey", name, MaxKey); err != nil {
		return Key{}, err
	}
	canonical, err := canonicalInput(input)
	if err != nil {
		return Key{}, err
	}
	return Key{place: keyPrefix + "named/" + digest(space, caller, name), named: true, digest: digest(typ, canonical)}, nil
}

// Shared is a key that all callers of a space share, such as a webhook's delivery id or a job's id.
func Shared(space, id string) (Key, error) {
	if err := job.ValidateName("space", space, job.MaxName); err != nil {
		return Key{}, err
	}
	if err := job.ValidateName("id", id, MaxKey); err != nil {
		return Key{}, err
	}
	return Key{place: keyPrefix + "shared/" + digest(space, id)}, nil
}

func names(space, typ string) error {
	if err := job.ValidateName("space", space, job.MaxName); err != nil {
		return err
	}
	return job.ValidateName("type", typ, job.MaxName)
}

func checkCaller(caller string) error {
	if caller == "" {
		return nil
	}
	return job.ValidateName("caller", caller, job.MaxName)
}

// canonicalInput writes equal inputs equally. Numbers stay as they are written: the usual canonical form makes float64 of
// them, and two long identifiers the same.
func canonicalInput(input jsontext.Value) (string, error) {
	if len(input) == 0 {
		return "{}", nil
	}
	v := input.Clone()
	err := v.Format(
		jsontext.ReorderRawObjects(true),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false),
		jsontext.PreserveRawStrings(false), jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false),
	)
	if err != nil {
		return "", &job.FieldError{Field: "input", Reason: "is not valid JSON (or has duplicate names, or is no UTF-8)"}
	}
	return string(v), nil
}

// digest is a hash of texts that tells where each ends.
func digest(parts ...string) string {
	h := sha256.New()
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}
