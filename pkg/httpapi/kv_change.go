package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// done is the answer that something was done to the key.
func (in *PathKey) done() KeyDone { return KeyDone{in.Space, in.Key, true} }

// PathKeyTTL is a key with a lifetime.
type PathKeyTTL struct {
	PathKey
	TTL string `query:"ttl" doc:"How long it is kept; for ever, without." example:"7d"`
}

// ttl is the lifetime.
func (in *PathKeyTTL) ttl() (time.Duration, *Problem) {
	d, p := parseDuration("ttl", in.TTL)
	if p != nil {
		return 0, p
	}
	if err := kv.CheckTTL(d); err != nil {
		return 0, badParameter("ttl", err)
	}
	return d, nil
}

func (v values) put(ctx context.Context, in *PathKeyTTL) (any, error) {
	ttl, p := in.ttl()
	if p != nil {
		return nil, p
	}
	return in.done(), v.KV.Space(in.Space).Set(ctx, in.Key, jsontext.Value(bodyOf(ctx)), ttl)
}

func (v values) remove(ctx context.Context, in *PathKey) (any, error) {
	return in.done(), v.KV.Space(in.Space).Delete(ctx, in.Key)
}

// Expected is the value that a key has to have.
type Expected struct {
	Expected any `json:"expected"`
}

func (v values) removeIf(ctx context.Context, in *PathKey) (any, error) {
	var e struct {
		Expected jsontext.Value `json:"expected"`
	}
	if p := decodeBody(ctx, &e); p != nil {
		return nil, p
	}
	if e.Expected == nil {
		return nil, badFields(FieldProblem{"/expected", "must be there"})
	}
	gone, err := v.KV.Space(in.Space).DeleteIf(ctx, in.Key, e.Expected)
	if err == nil && !gone {
		return nil, unchanged("the key does not have the value that was expected")
	}
	return in.done(), err
}

// Swap is the value that a key has to have, and the next one.
type Swap struct {
	Expected any `json:"expected,omitempty" doc:"Left out: the key has to be absent. (null is a value.)"`
	Next     any `json:"next"`
}

func (v values) swap(ctx context.Context, in *PathKeyTTL) (any, error) {
	var s struct {
		Expected jsontext.Value `json:"expected"`
		Next     jsontext.Value `json:"next"`
	}
	ttl, p := in.ttl()
	if p == nil {
		p = decodeBody(ctx, &s)
	}
	if p != nil {
		return nil, p
	}
	if s.Next == nil {
		return nil, badFields(FieldProblem{"/next", "must be there"})
	}
	var expected any
	not := "the key has a value"
	if s.Expected != nil {
		expected, not = s.Expected, "the key does not have the value that was expected"
	}
	won, err := v.KV.Space(in.Space).Swap(ctx, in.Key, expected, s.Next, ttl)
	if err == nil && !won {
		return nil, unchanged(not)
	}
	return in.done(), err
}

type incrementInput struct {
	PathKeyTTL
	By int64 `query:"by" default:"1" doc:"How much to add."`
}

func (v values) increment(ctx context.Context, in *incrementInput) (any, error) {
	ttl, p := in.ttl()
	if p != nil {
		return nil, p
	}
	sum, err := v.KV.Space(in.Space).Increment(ctx, in.Key, in.By, ttl)
	return keyValue{in.Space, in.Key, jsontext.Value(strconv.FormatInt(sum, 10))}, err
}

func (v values) expire(ctx context.Context, in *PathKeyTTL) (any, error) {
	ttl, p := in.ttl()
	if p != nil {
		return nil, p
	}
	if in.TTL == "" {
		return nil, badFields(FieldProblem{"ttl", "must say how long the key is kept, such as 90s or 7d, or 0s for ever"})
	}
	there, err := v.KV.Space(in.Space).Expire(ctx, in.Key, ttl)
	if err == nil && !there {
		return nil, noSuchJob()
	}
	return in.done(), err
}
