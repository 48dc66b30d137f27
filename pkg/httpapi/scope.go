package httpapi

import (
	"context"
	"net/http"
)

// Scope is what a caller has to be allowed for an operation.
type Scope string

// The scopes. None includes another.
const (
	ScopeRead      Scope = "read"      // look at jobs, queues, workers and schedules
	ScopeEnqueue   Scope = "enqueue"   // put jobs in
	ScopeOperate   Scope = "operate"   // steer jobs, and run a schedule's job now
	ScopeConfigure Scope = "configure" // set queues and schedules
	ScopeKVRead    Scope = "kv-read"   // read the key/value store
	ScopeKVWrite   Scope = "kv-write"  // change it
)

// fleet stands for what is in no space, and belongs to all of them: queues, workers, the scheduler. No space is called so.
const fleet = ""

// authorize refuses what a caller may not do: what its scopes do not cover with 403, and spaces that are not its own as
// if there were nothing in them. What belongs to the fleet is for callers who are good for all spaces.
func authorize(c *caller, scope Scope, spaces ...string) *Problem {
	if !c.can(scope) {
		return newProblem(http.StatusForbidden, CodeForbidden, "this takes the scope "+string(scope)+", which the token does not have")
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

// can reports whether the caller has a scope. Tokens have all of them.
func (c *caller) can(Scope) bool { return true }

// authorized is authorize for who makes the request that ctx belongs to, by the scope of its operation.
func authorized(ctx context.Context, spaces ...string) *Problem {
	return authorize(callerOf(ctx), infoOf(ctx).scope, spaces...)
}
