package httpapi

import (
	"context"
	"net/http"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func registerLists(r *routes, v values) {
	const one = "/v1/lists/{space}/{list}"
	add[ListNames](r, route{
		id: "listLists", method: http.MethodGet, path: "/v1/lists/{space}", scope: ScopeKVRead, long: true,
		summary: "List the ranked lists of a space", says: "In the order of their bytes. With more, go on after the last one.",
	}, v.lists)
	add[List](r, route{
		id: "rangeList", method: http.MethodGet, path: one, scope: ScopeKVRead,
		summary: "Read entries of a list, the highest score first", says: "A list that is not there has none.",
	}, v.entries)
	add[ListDone](r, route{
		id: "deleteList", method: http.MethodDelete, path: one, scope: ScopeKVWrite,
		summary: "Remove a list", says: "One that is not there is none the less gone.",
	}, v.removeList)
	add[ListDone](r, route{
		id: "putEntry", method: http.MethodPut, path: one + "/{entry}", scope: ScopeKVWrite, body: reflect.TypeFor[EntryValue](),
		summary: "Add an entry to a list, or replace it", also: []int{http.StatusConflict},
		says: "Its id is 1 to 128 of A-Z a-z 0-9 : _ . @ -. With higherOnly, 409 if the entry has a higher score. What fell off the end is told.",
	}, v.putEntry)
	add[ListDone](r, route{
		id: "removeEntry", method: http.MethodDelete, path: one + "/{entry}", scope: ScopeKVWrite,
		summary: "Remove an entry of a list",
	}, v.removeEntry)
}

// ListNames are names of lists.
type ListNames struct {
	Space string   `json:"space"`
	Lists []string `json:"lists"`
	More  bool     `json:"more"`
}

// List are entries of a list.
type List struct {
	Space   string  `json:"space"`
	List    string  `json:"list"`
	Entries []Entry `json:"entries"`
}

// Entry is an entry of a list.
type Entry struct {
	ID    string  `json:"id"`
	Score float64 `json:"score"`
	Value any     `json:"value"`
}

// ListDone says what became of a list, or of an entry of it.
type ListDone struct {
	Space   string  `json:"space"`
	List    string  `json:"list"`
	ID      string  `json:"id,omitempty"`
	Done    bool    `json:"done"`
	Dropped []Entry `json:"dropped,omitempty" doc:"Of an entry that was put: what fell off the end."`
}

// listDone is a ListDone as it is written.
type listDone struct {
	Space   string      `json:"space"`
	List    string      `json:"list"`
	ID      string      `json:"id,omitzero"`
	Done    bool        `json:"done"`
	Dropped *[]kv.Entry `json:"dropped,omitzero"`
}

func (v values) lists(ctx context.Context, in *keysInput) (any, error) {
	names, more, err := sortedKeys(in, v.KV.Space(in.Space).ListNames(ctx, in.Prefix))
	return ListNames{in.Space, names, more}, err
}

// PathList names a list.
type PathList struct {
	Space string `path:"space"`
	List  string `path:"list" doc:"Percent-encoded where need be: it may be any text."`
}

// of is the list.
func (in *PathList) of(v values) *kv.List { return v.KV.Space(in.Space).List(in.List) }

type rangeInput struct {
	PathList
	Offset    int  `query:"offset" minimum:"0" default:"0" doc:"Leave out so many first."`
	Limit     int  `query:"limit" minimum:"0" maximum:"500" default:"500" doc:"So many at most."`
	Ascending bool `query:"ascending" doc:"The lowest score first."`
}

func (v values) entries(ctx context.Context, in *rangeInput) (any, error) {
	order := kv.Descending
	if in.Ascending {
		order = kv.Ascending
	}
	entries, err := in.of(v).Range(ctx, in.Offset, in.Limit, order)
	return struct {
		Space   string     `json:"space"`
		List    string     `json:"list"`
		Entries []kv.Entry `json:"entries"`
	}{in.Space, in.List, entries}, err
}

func (v values) removeList(ctx context.Context, in *PathList) (any, error) {
	return listDone{Space: in.Space, List: in.List, Done: true}, in.of(v).Delete(ctx)
}

// PathEntry names an entry of a list.
type PathEntry struct {
	PathList
	Entry string `path:"entry"`
}

// EntryValue is an entry that is put.
type EntryValue struct {
	Score float64 `json:"score"`
	Value any     `json:"value,omitempty" doc:"null, without."`
}

type putEntryInput struct {
	PathEntry
	Keep       int  `query:"keep" minimum:"0" maximum:"500" default:"500" doc:"How many entries the list shall have at most, the highest ones."`
	HigherOnly bool `query:"higherOnly" doc:"Leave an entry as it is if its score is higher."`
}

func (v values) putEntry(ctx context.Context, in *putEntryInput) (any, error) {
	var e struct {
		Score *float64       `json:"score"`
		Value jsontext.Value `json:"value"`
	}
	if p := decodeBody(ctx, &e); p != nil {
		return nil, p
	}
	if e.Score == nil {
		return nil, badFields(FieldProblem{"/score", "must be there"})
	}
	if e.Value == nil {
		e.Value = jsontext.Value("null")
	}
	opts := []kv.PutOption{kv.Keep(in.Keep)}
	if in.HigherOnly {
		opts = append(opts, kv.HigherOnly())
	}
	stored, dropped, err := in.of(v).Put(ctx, in.Entry, *e.Score, e.Value, opts...)
	switch {
	case err != nil:
		return nil, err
	case !stored:
		return nil, unchanged("the entry has a higher score")
	case dropped == nil:
		dropped = []kv.Entry{}
	}
	return listDone{in.Space, in.List, in.Entry, true, &dropped}, nil
}

func (v values) removeEntry(ctx context.Context, in *PathEntry) (any, error) {
	was, err := in.of(v).Remove(ctx, in.Entry)
	if err == nil && !was {
		return nil, noSuchJob()
	}
	return listDone{Space: in.Space, List: in.List, ID: in.Entry, Done: true}, err
}
