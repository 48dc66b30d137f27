package kv

import (
	"github.com/jetcrew/jetcrew/pkg/job"
)

// Options of a Store. The zero value works.
type Options struct {
	// Busy is what a visitor is told when a change lost every race: it stands in the refusal, so it should give nothing
	// away. Defaults to "Too much is going on at once. Please try again in a moment."
	Busy string
}

// Store is values, counters and lists in spaces, over any Adapter. It is safe for concurrent use, and needs no closing.
// A process should have one: changes of the same key take turns within a Store, where those of several have to race.
//
// What an adapter cannot answer fails the caller; no error is caught. What each operation costs in calls of the adapter:
//
//	Get, Set, Delete, DeleteIf, Expire, Swap   1
//	Increment without a lifetime               1
//	Increment with one                         1 where it makes the counter, 2 where there is one
//	                                           (3 where the counter lapses between the two)
//	Change                                     2, and 2 for each race lost; 1 where nothing is written
//	List.Put, List.Remove                      the same
//	List.Range                                 1
//	List.Delete                                1
//	Keys, ListNames                            1 listing
//	Wipe                                       2 wipes
type Store struct {
	adapter Adapter
	busy    error
	lines   lines
}

// New is a store over an adapter.
func New(adapter Adapter, opts Options) *Store {
	if opts.Busy == "" {
		opts.Busy = "Too much is going on at once. Please try again in a moment."
	}
	return &Store{
		adapter: adapter,
		busy:    job.Refuse(job.CodeOverCapacity, opts.Busy),
		lines:   lines{byKey: make(map[string]*line)},
	}
}

// Space is a part of the store with keys of its own: 1 to 191 bytes of UTF-8 name it, as they name the space of a job. It
// asks the store nothing. Every operation on a space whose name is none fails with a *job.FieldError.
func (s *Store) Space(name string) *Space {
	escaped := escape(name)
	return &Space{
		store:  s,
		name:   name,
		err:    job.ValidateName("space", name, job.MaxName),
		values: "v/" + escaped + "/",
		lists:  "list/" + escaped + "/",
	}
}
