package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// Scope is what a caller has to be allowed for an operation.
type Scope string

// The scopes. None includes another.
const (
	ScopeRead      Scope = "read"      // look at jobs, queues, workers and schedules
	ScopeEnqueue   Scope = "enqueue"   // put jobs in
	ScopeCall      Scope = "call"      // put jobs in and be told what comes of them, and cancel these
	ScopeOperate   Scope = "operate"   // steer jobs, and run a schedule's job now
	ScopeConfigure Scope = "configure" // set queues and schedules
	ScopeKVRead    Scope = "kv-read"   // read the key/value store
	ScopeKVWrite   Scope = "kv-write"  // change it
	ScopeAdmin     Scope = "admin"     // make and revoke tokens, and so give out every scope
)

// Scopes lists all of them.
func Scopes() []Scope {
	return []Scope{ScopeRead, ScopeEnqueue, ScopeCall, ScopeOperate, ScopeConfigure, ScopeKVRead, ScopeKVWrite, ScopeAdmin}
}

func scopeNames() string {
	names := make([]string, len(Scopes()))
	for i, s := range Scopes() {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// fleet stands for what is in no space, and belongs to all of them: queues, workers, the scheduler. No space is called so.
const fleet = ""

// authorize refuses what a caller may not do: what its scopes do not cover with 403, and spaces that are not its own as
// if there were nothing in them. What belongs to the fleet is for callers who are good for all spaces.
func authorize(c *caller, scope Scope, spaces ...string) *Problem {
	if !c.can(scope) {
		return newProblem(http.StatusForbidden, CodeMissingScope, "this takes the scope "+string(scope)+", which the token does not have")
	}
	for _, space := range spaces {
		switch {
		case space == fleet && len(c.spaces) > 0:
			return newProblem(http.StatusForbidden, CodeForbidden, "this concerns all spaces, and the token is good for some of them")
		case space != fleet && !c.may(space):
			return noSuchJob()
		}
	}
	return nil
}

// can reports whether the caller has a scope. Who has none of its own has all of them.
func (c *caller) can(scope Scope) bool { return c.scopes == nil || slices.Contains(c.scopes, scope) }

// authorized is authorize for who makes the request that ctx belongs to, by the scope of its operation; and what it
// concerns is counted, each space once.
func authorized(ctx context.Context, spaces ...string) *Problem {
	in := infoOf(ctx)
	if len(spaces) > 0 {
		in.space = spaces[0]
	}
	if p := authorize(callerOf(ctx), in.scope, spaces...); p != nil {
		in.denied = true
		return p
	}
	for _, space := range spaces {
		if space == fleet || slices.Contains(in.counted, space) {
			continue
		}
		in.counted = append(in.counted, space)
		if p := in.access.limitSpace(ctx, space); p != nil {
			in.space = space
			return p
		}
	}
	return nil
}
