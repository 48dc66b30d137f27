// Package pinned holds tests of the server, not of jetcrew: each pins a
// behaviour of nats-server that the design relies on, on one server and on a
// cluster of three, so that an upgrade which changes it is noticed here first.
// Some of it is documented nowhere else.
package pinned
