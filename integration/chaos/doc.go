// Package chaos holds the tests that treat running systems badly: real workers,
// servers and the nodes of a cluster are killed, frozen, cut off and starved
// under load. Each one runs producers and workers against a fault, lets
// everything come to rest, and then has a checker compare three accounts of what
// happened: what the producers were told, what each worker wrote into a ledger of
// its own outside of NATS, and the records in the stream.
//
// Plain "go test" runs what is quick. "make chaos" (JETCREW_CHAOS=1) runs all of
// it, with a line for each fault; the tag "failpoints" adds those at which a
// process fails at a chosen place. docs/faults.md is the map.
package chaos
