package kv

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The codec of values: durations as Go writes them, duplicate names and invalid UTF-8 refused, and one value always
// written in the same way, so that Swap can expect it.
var codec = json.JoinOptions(
	json.WithMarshalers(json.MarshalToFunc(func(enc *jsontext.Encoder, d time.Duration) error {
		return enc.WriteToken(jsontext.String(d.String()))
	})),
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
	json.Deterministic(true),
	jsontext.AllowDuplicateNames(false),
	jsontext.AllowInvalidUTF8(false),
)

func encode(value any) (string, error) {
	b, err := json.Marshal(value, codec)
	if err != nil {
		return "", fmt.Errorf("the value to be written, of the type %T, cannot be JSON: %w", value, err)
	}
	return string(b), nil
}

// decode reads a stored value. What is no JSON is the string that it is; text with a name twice in an object counts as
// no JSON, since taking either member would lose the other.
func decode(raw string, into any) error {
	b := []byte(raw)
	if document, ok := into.(*any); ok {
		*document = nil // or what stood there would say what kind of value it has to be
	}
	if jsontext.Value(b).IsValid() {
		return json.Unmarshal(b, into, codec)
	}
	switch into := into.(type) {
	case *string:
		*into = raw
		return nil
	case *any:
		*into = raw
		return nil
	}
	quoted, err := jsontext.AppendQuote(nil, raw)
	if err == nil {
		err = json.Unmarshal(quoted, into, codec)
	}
	if err != nil {
		return fmt.Errorf("the value is no JSON, and no %T takes it as a string: %w", into, err)
	}
	return nil
}
