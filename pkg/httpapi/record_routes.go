package httpapi

import (
	"context"
	"net/http"
)

// records serves what the operator may know of requests that came to nothing.
type records struct{ *Config }

func registerRecords(r *routes) {
	v := records{r.cfg}
	add[RefusalList](r, route{
		id: "listRefusals", method: http.MethodGet, path: "/v1/refusals", scope: ScopeOperate, place: inFleet,
		summary: "List the requests that were refused before they ran, the newest first",
		says: "Alike ones of a token within a minute share a record, as do those of anybody without a token within an hour. Records " +
			"are there after a few seconds, and stay for 7 days, the newest 300 of each of the two kinds.",
	}, v.refusals)
	add[Failure](r, route{
		id: "getError", method: http.MethodGet, path: "/v1/errors/{error}", scope: ScopeOperate, place: inFleet, also: []int{http.StatusNotFound},
		summary: "What an errorId stands for",
		says:    "It is there after a few seconds, and stays for 7 days, unless too many others follow; the log has all of them.",
	}, v.failure)
}

// RefusalList are records of refused requests.
type RefusalList struct {
	Refusals []Refusal `json:"refusals"`
}

type refusalsInput struct {
	Since string `query:"since" doc:"Not older than this: an instant, or how long ago it was, such as 1h." example:"1h"`
	Limit int    `query:"limit" minimum:"1" maximum:"600" default:"100" doc:"So many at most."`
}

func (v records) refusals(ctx context.Context, in *refusalsInput) (any, error) {
	since, p := parseMoment("since", in.Since, v.Access.now())
	if p != nil {
		return nil, p
	}
	list, err := v.Access.Refusals(ctx, since, in.Limit)
	return RefusalList{list}, err
}

type oneError struct {
	Error string `path:"error" doc:"The errorId of a problem."`
}

func (v records) failure(ctx context.Context, in *oneError) (any, error) {
	return answered(v.Access.Failure(ctx, in.Error))
}
