// Package kill holds tests that end, freeze and restart real processes under
// load: workers, servers, and the nodes of a cluster. Each one runs producers
// and workers against a fault, lets everything come to rest, and then has a
// checker compare three accounts of what happened: what the producers were told,
// what each worker wrote into a ledger of its own outside of NATS, and the
// records in the stream.
//
// With -short only the tests on a single server run.
package kill
