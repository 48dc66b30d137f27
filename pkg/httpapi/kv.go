package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// values serves the routes under /v1/kv.
type values struct{ *Config }

func registerKV(r *routes) {
	v := values{r.cfg}
	const one = "/v1/kv/{space}/{key}"
	conflict := []int{http.StatusConflict}
	add[Keys](r, route{
		id: "listKeys", method: http.MethodGet, path: "/v1/kv/{space}", scope: ScopeKVRead, long: true,
		summary: "List the keys of a space, in the order of their bytes",
		says:    "Those written or removed meanwhile may or may not be among them. With more, go on after the last one.",
	}, v.keys)
	add[Wiped](r, route{
		id: "wipeSpace", method: http.MethodPost, path: "/v1/kv/{space}/wipe", scope: ScopeKVWrite, long: true,
		summary: "Remove all values and lists of a space", says: "Those that are there when it begins. Asking again goes on with what is left.",
	}, v.wipe)
	add[KeyValue](r, route{
		id: "getValue", method: http.MethodGet, path: one, scope: ScopeKVRead, also: conflict,
		summary: "Read a value", says: "What something else wrote and is no JSON is the string that it is. 409 if no JSON can hold it.",
	}, v.get)
	add[KeyDone](r, route{
		id: "putValue", method: http.MethodPut, path: one, scope: ScopeKVWrite, body: reflect.TypeFor[AnyValue](),
		summary: "Store a value: the body, whatever JSON it is", says: "An earlier lifetime is replaced, also by none.",
	}, v.put)
	add[KeyDone](r, route{
		id: "deleteValue", method: http.MethodDelete, path: one, scope: ScopeKVWrite,
		summary: "Remove a key", says: "One that is not there is none the less gone.",
	}, v.remove)
	add[KeyDone](r, route{
		id: "deleteValueIf", method: http.MethodPost, path: one + "/delete", scope: ScopeKVWrite, also: conflict, body: reflect.TypeFor[Expected](),
		summary: "Remove a key if it has the value that is expected", says: "409 if it has not.",
	}, v.removeIf)
	add[KeyDone](r, route{
		id: "swapValue", method: http.MethodPost, path: one + "/swap", scope: ScopeKVWrite, also: conflict, body: reflect.TypeFor[Swap](),
		summary: "Store a value only over the one that is expected",
		says:    "Or, where expected is left out, only if there is none. Of several who try at once one wins; the others get 409. An earlier lifetime is replaced, also by none.",
	}, v.swap)
	add[KeyValue](r, route{
		id: "increment", method: http.MethodPost, path: one + "/increment", scope: ScopeKVWrite, also: conflict,
		summary: "Add to a counter, which begins at zero", says: "Whoever makes the counter gives it its lifetime, and nobody extends it. The value in the answer is the sum.",
	}, v.increment)
	add[KeyDone](r, route{
		id: "expireValue", method: http.MethodPost, path: one + "/expire", scope: ScopeKVWrite,
		summary: "Give a key a lifetime that begins now, or with 0s none",
	}, v.expire)
	registerLists(r, v)
}

// AnyValue is any JSON.
type AnyValue any

// KeyValue is a key and its value.
type KeyValue struct {
	Space string `json:"space"`
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// keyValue is a KeyValue as it is written.
type keyValue struct {
	Space string         `json:"space"`
	Key   string         `json:"key"`
	Value jsontext.Value `json:"value"`
}

// KeyDone says what became of a key.
type KeyDone struct {
	Space string `json:"space"`
	Key   string `json:"key"`
	Done  bool   `json:"done"`
}

// Keys are keys of a space.
type Keys struct {
	Space string   `json:"space"`
	Keys  []string `json:"keys"`
	More  bool     `json:"more"`
}

// Wiped says how many values and lists were removed.
type Wiped struct {
	Space  string `json:"space"`
	Wiped  int    `json:"wiped"`
	DryRun bool   `json:"dryRun,omitzero"`
}

// keysInput asks for keys, or names of lists.
type keysInput struct {
	Space  string `path:"space"`
	Prefix string `query:"prefix" doc:"That begin so."`
	After  string `query:"after" doc:"That come after this one."`
	Limit  int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"So many at most."`
}

func (v values) keys(ctx context.Context, in *keysInput) (any, error) {
	keys, more, err := sortedKeys(in, v.KV.Space(in.Space).Keys(ctx, in.Prefix))
	return Keys{in.Space, keys, more}, err
}

// sortedKeys are the first keys after one, of a sequence that has no order.
func sortedKeys(in *keysInput, all func(func(string, error) bool)) (keys []string, more bool, err error) {
	for _, f := range []struct{ name, value string }{{"prefix", in.Prefix}, {"after", in.After}} {
		if err := kv.CheckPrefix(f.value); err != nil {
			return nil, false, badParameter(f.name, err)
		}
	}
	keys = []string{}
	trim := func() {
		slices.Sort(keys)
		if over := len(keys) > in.Limit; over {
			more = true
			keys = keys[:in.Limit]
		}
	}
	for key, err := range all {
		if err != nil {
			return nil, false, err
		}
		if key <= in.After {
			continue
		}
		if keys = append(keys, key); len(keys) >= 4*in.Limit+1000 {
			trim()
		}
	}
	trim()
	return keys, more, nil
}

type wipeInput struct {
	Space  string `path:"space"`
	DryRun bool   `query:"dryRun" doc:"Change nothing, only count."`
}

func (v values) wipe(ctx context.Context, in *wipeInput) (any, error) {
	space := v.KV.Space(in.Space)
	out := Wiped{Space: in.Space, DryRun: in.DryRun}
	if !in.DryRun {
		var err error
		out.Wiped, err = space.Wipe(ctx)
		return out, err
	}
	for _, all := range []func(func(string, error) bool){space.Keys(ctx, ""), space.ListNames(ctx, "")} {
		for _, err := range all {
			if err != nil {
				return nil, err
			}
			out.Wiped++
		}
	}
	return out, nil
}

// PathKey names a key.
type PathKey struct {
	Space string `path:"space"`
	Key   string `path:"key" doc:"Percent-encoded where need be: it may be any text."`
}

func (v values) get(ctx context.Context, in *PathKey) (any, error) {
	space := v.KV.Space(in.Space)
	value, ok, err := kv.Get[jsontext.Value](ctx, space, in.Key)
	if err != nil {
		var raw any
		if there, rerr := space.Get(ctx, in.Key, &raw); rerr == nil && there {
			return nil, newProblem(http.StatusConflict, CodeUnreadable, "the value is neither JSON nor text")
		}
		return nil, err
	}
	if !ok {
		return nil, noSuchJob()
	}
	return keyValue{in.Space, in.Key, value}, nil
}
