package job

import (
	"bytes"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TimeFormat is how instants are written in JSON: RFC 3339 in UTC with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// The codec of every document: instants in TimeFormat, durations as Go writes them ("1m30s"), duplicate
// names and invalid UTF-8 refused (the standard library's decoder takes both).
var codec = json.JoinOptions(
	json.WithMarshalers(json.JoinMarshalers(
		json.MarshalToFunc(func(enc *jsontext.Encoder, t time.Time) error {
			return enc.WriteToken(jsontext.String(t.UTC().Format(TimeFormat)))
		}),
		json.MarshalToFunc(func(enc *jsontext.Encoder, d time.Duration) error {
			return enc.WriteToken(jsontext.String(d.String()))
		}),
	)),
	json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, d *time.Duration) error {
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if tok.Kind() != '"' {
			return fmt.Errorf(`a duration is text such as "30s", not %s`, tok.Kind())
		}
		*d, err = time.ParseDuration(tok.String())
		return err
	})),
	json.Deterministic(true), // what is the same is written the same
	jsontext.AllowDuplicateNames(false),
	jsontext.AllowInvalidUTF8(false),
)

// Encode writes v as jetcrew writes its documents.
func Encode(v any) ([]byte, error) { return json.Marshal(v, codec) }

// Decode reads b into v as jetcrew reads its documents.
func Decode(b []byte, v any) error { return json.Unmarshal(b, v, codec) }

// fields is Job without its methods, so that the codec sees its members.
type fields Job

// MarshalJSON writes the job for encoding/json and anything built on it.
func (j Job) MarshalJSON() ([]byte, error) { return Encode(fields(j)) }

// UnmarshalJSON reads the job for encoding/json and anything built on it.
func (j *Job) UnmarshalJSON(b []byte) error { return Decode(b, (*fields)(j)) }

// Millis cuts t to the precision of the documents, in UTC.
func Millis(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// CeilMillis is Millis rounded up: what must not happen before t does not happen before the result.
func CeilMillis(t time.Time) time.Time {
	m := Millis(t)
	if m.Before(t) {
		m = m.Add(time.Millisecond)
	}
	return m
}

// CutError cuts an error's text to MaxError bytes at a rune's border, and makes it valid UTF-8.
func CutError(s string) string { return cutText(s, MaxError) }

func cutText(s string, limit int) string {
	if !utf8.ValidString(s) {
		s = string(bytes.ToValidUTF8([]byte(s), []byte("\uFFFD")))
	}
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	n := limit - len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
