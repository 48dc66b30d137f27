package apiclient

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Space is a space of the key/value store, over HTTP: what a kv.Space does, but for watching. Nothing that changes
// something is asked again once it may have been done; errors then wrap kv.ErrUnknown.
type Space struct {
	c    *Client
	name string
}

// Space is the space of that name.
func (c *Client) Space(name string) *Space { return &Space{c, name} }

// Name is the space's.
func (s *Space) Name() string { return s.name }

// errNoKey is what a 404 means here, for whoever asks for it.
var errNoKey = errors.New("there is no such key")

// onKey asks for something about one key.
func (s *Space) onKey(ctx context.Context, cl *call, key, what string, ttl *time.Duration, out any) error {
	if err := kv.CheckKey(key); err != nil {
		return err
	}
	if cl.query == nil {
		cl.query = url.Values{}
	}
	if ttl != nil {
		if err := kv.CheckTTL(*ttl); err != nil {
			return err
		}
		cl.query.Set("ttl", config.FormatDuration(*ttl))
	}
	cl.path, cl.missing, cl.unknown = location("v1", "kv", s.name, key)+what, errNoKey, kv.ErrUnknown
	_, err := s.c.do(ctx, cl, out)
	if err != nil && !errors.Is(err, errNoKey) {
		return fmt.Errorf("key %q in space %q: %w", key, s.name, err)
	}
	return err
}

// unless answers false for an error that means that it could not be done, and true for none.
func unless(err error, means func(error) bool) (bool, error) {
	if err != nil && means(err) {
		return false, nil
	}
	return err == nil, err
}

func isMissing(err error) bool { return errors.Is(err, errNoKey) }

func isUnchanged(err error) bool {
	var p *Error
	return errors.As(err, &p) && p.Code == codeUnchanged
}

// lifetime is a ttl as a parameter; of 0, which is none, nothing.
func lifetime(ttl time.Duration) *time.Duration {
	if ttl == 0 {
		return nil
	}
	return &ttl
}

// Get reads a key's value; false where there is none.
func (s *Space) Get(ctx context.Context, key string, into any) (bool, error) {
	var got struct {
		Value jsontext.Value `json:"value"`
	}
	ok, err := unless(s.onKey(ctx, &call{method: http.MethodGet}, key, "", nil, &got), isMissing)
	if err != nil || !ok {
		return false, err
	}
	if err := job.Decode(got.Value, into); err != nil {
		return false, fmt.Errorf("key %q in space %q: %w", key, s.name, err)
	}
	return true, nil
}

// Set stores a value. An earlier lifetime is replaced, also by none.
func (s *Space) Set(ctx context.Context, key string, value any, ttl time.Duration) error {
	return s.onKey(ctx, &call{method: http.MethodPut, body: value}, key, "", lifetime(ttl), nil)
}

// Delete removes a key. One that is not there is none the less gone.
func (s *Space) Delete(ctx context.Context, key string) error {
	return s.onKey(ctx, &call{method: http.MethodDelete, again: true}, key, "", nil, nil)
}

// DeleteIf removes a key if it has the value that is expected.
func (s *Space) DeleteIf(ctx context.Context, key string, expected any) (bool, error) {
	body := map[string]any{"expected": expected}
	return unless(s.onKey(ctx, &call{method: http.MethodPost, body: body}, key, "/delete", nil, nil), isUnchanged)
}

// Swap stores a value over the one that is expected, or, expecting nil, if there is none.
func (s *Space) Swap(ctx context.Context, key string, expected, next any, ttl time.Duration) (bool, error) {
	body := map[string]any{"next": next}
	if expected != nil {
		body["expected"] = expected
	}
	return unless(s.onKey(ctx, &call{method: http.MethodPost, body: body}, key, "/swap", lifetime(ttl), nil), isUnchanged)
}

// Increment adds to a counter, which begins at zero, and answers the sum.
func (s *Space) Increment(ctx context.Context, key string, amount int64, ttl time.Duration) (int64, error) {
	var got struct {
		Value int64 `json:"value"`
	}
	cl := &call{method: http.MethodPost, query: url.Values{"by": {strconv.FormatInt(amount, 10)}}}
	return got.Value, s.onKey(ctx, cl, key, "/increment", lifetime(ttl), &got)
}

// Expire gives a key a lifetime that begins now, or with 0 none; false where there is none.
func (s *Space) Expire(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	return unless(s.onKey(ctx, &call{method: http.MethodPost}, key, "/expire", &ttl, nil), isMissing)
}

// Keys are the keys that begin with a prefix, in the order of their bytes.
func (s *Space) Keys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return s.names(ctx, "kv", prefix)
}

// ListNames are the names of the lists that begin with a prefix, in the order of their bytes.
func (s *Space) ListNames(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return s.names(ctx, "lists", prefix)
}

// keysAtOnce is how many keys one request asks for.
const keysAtOnce = 10_000

func (s *Space) names(ctx context.Context, what, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		query := url.Values{"limit": {strconv.Itoa(keysAtOnce)}}
		if prefix != "" {
			query.Set("prefix", prefix)
		}
		for {
			var got struct {
				Keys  []string `json:"keys"`
				Lists []string `json:"lists"`
				More  bool     `json:"more"`
			}
			cl := &call{method: http.MethodGet, path: location("v1", what, s.name), query: query, long: true, unknown: kv.ErrUnknown}
			if _, err := s.c.do(ctx, cl, &got); err != nil {
				yield("", err)
				return
			}
			found := append(got.Keys, got.Lists...)
			for _, name := range found {
				if !yield(name, nil) {
					return
				}
			}
			if !got.More || len(found) == 0 {
				return
			}
			query.Set("after", found[len(found)-1])
		}
	}
}

// Wipe removes all values and lists of the space, those that are there when it begins, and answers how many.
func (s *Space) Wipe(ctx context.Context) (int, error) {
	var got struct {
		Wiped int `json:"wiped"`
	}
	_, err := s.c.do(ctx, &call{method: http.MethodPost, path: location("v1", "kv", s.name, "wipe"), long: true, unknown: kv.ErrUnknown}, &got)
	return got.Wiped, err
}

// List is a ranked list of a Space, over HTTP: what a kv.List does.
type List struct {
	s    *Space
	name string
}

// List is the list of that name.
func (s *Space) List(name string) *List { return &List{s, name} }

func (l *List) do(ctx context.Context, cl *call, entry string, out any) error {
	if err := kv.CheckKey(l.name); err != nil {
		return err
	}
	cl.path, cl.missing, cl.unknown = location("v1", "lists", l.s.name, l.name), errNoKey, kv.ErrUnknown
	if entry != "" {
		cl.path += location(entry)
	}
	_, err := l.s.c.do(ctx, cl, out)
	if err != nil && !isMissing(err) {
		return fmt.Errorf("list %q in space %q: %w", l.name, l.s.name, err)
	}
	return err
}

// Range answers entries of the list. A list that is not there has none.
func (l *List) Range(ctx context.Context, offset, limit int, order kv.Order) ([]kv.Entry, error) {
	query := url.Values{"offset": {strconv.Itoa(offset)}, "limit": {strconv.Itoa(min(limit, kv.MaxEntries))}}
	if order == kv.Ascending {
		query.Set("ascending", "true")
	}
	var got struct {
		Entries []kv.Entry `json:"entries"`
	}
	err := l.do(ctx, &call{method: http.MethodGet, query: query}, "", &got)
	return got.Entries, err
}

// Put adds an entry, or replaces the one of that id, and keeps so many entries at most, the highest ones. With higherOnly
// an entry whose score is higher stays as it is. It answers whether the entry was stored, and what fell off the end.
func (l *List) Put(ctx context.Context, id string, score float64, value any, keep int, higherOnly bool) (stored bool, dropped []kv.Entry, err error) {
	if err := checkEntry(id, score); err != nil {
		return false, nil, err
	}
	query := url.Values{"keep": {strconv.Itoa(keep)}}
	if higherOnly {
		query.Set("higherOnly", "true")
	}
	var got struct {
		Dropped []kv.Entry `json:"dropped"`
	}
	body := map[string]any{"score": score, "value": value}
	stored, err = unless(l.do(ctx, &call{method: http.MethodPut, query: query, body: body}, id, &got), isUnchanged)
	return stored, got.Dropped, err
}

// checkEntry refuses what the path of an entry, or its JSON, could not say.
func checkEntry(id string, score float64) error {
	if id == "" || len(id) > kv.MaxEntryID {
		return fieldError("id", "must be 1 to %d of A-Z a-z 0-9 : _ . @ -", kv.MaxEntryID)
	}
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return fieldError("score", "must be a finite number")
	}
	return nil
}

// Remove removes an entry; false where there is none.
func (l *List) Remove(ctx context.Context, id string) (bool, error) {
	if err := checkEntry(id, 0); err != nil {
		return false, err
	}
	return unless(l.do(ctx, &call{method: http.MethodDelete}, id, nil), isMissing)
}

// Delete removes the list. One that is not there is none the less gone.
func (l *List) Delete(ctx context.Context) error {
	return l.do(ctx, &call{method: http.MethodDelete, again: true}, "", nil)
}
