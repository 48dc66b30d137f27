package kv

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Entry is an entry of a List.
type Entry struct {
	ID    string         `json:"id"`
	Score float64        `json:"score"`
	Value jsontext.Value `json:"value"`
}

// Decode reads the entry's value into what into points to.
func (e Entry) Decode(into any) error { return json.Unmarshal(e.Value, into, codec) }

// rank orders entries: the highest score first, and by id where scores are equal.
func rank(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
}

// decodeList reads the entries of a stored list in their order. Those that are bad are skipped, as is a second one of the
// same id; what is no list has none.
func decodeList(raw string) []Entry {
	// Lenient, so that what is wrong within an entry spoils no other one.
	dec := jsontext.NewDecoder(strings.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '[' {
		return nil
	}
	var entries []Entry
	seen := make(map[string]bool)
	for dec.PeekKind() != ']' {
		value, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		if e, ok := decodeEntry(value); ok && !seen[e.ID] {
			seen[e.ID] = true
			entries = append(entries, e)
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) { // something follows the list
		return nil
	}
	slices.SortFunc(entries, rank)
	return entries
}

func decodeEntry(value jsontext.Value) (Entry, bool) {
	var stored struct {
		ID    *string        `json:"id"`
		Score *float64       `json:"score"`
		Value jsontext.Value `json:"value"`
	}
	if err := json.Unmarshal(value, &stored, codec); err != nil {
		return Entry{}, false
	}
	if stored.ID == nil || stored.Score == nil || !validID(*stored.ID) || !finite(*stored.Score) {
		return Entry{}, false
	}
	if stored.Value == nil {
		stored.Value = jsontext.Value("null")
	}
	return Entry{ID: *stored.ID, Score: *stored.Score, Value: stored.Value}, true
}

func validID(id string) bool {
	if len(id) < 1 || len(id) > MaxEntryID {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case strings.IndexByte(":_.@-", c) >= 0:
		default:
			return false
		}
	}
	return true
}

func finite(score float64) bool { return !math.IsNaN(score) && !math.IsInf(score, 0) }
