// Package pinned holds tests of the server, not of jetcrew: each pins a
// behaviour of nats-server that the design relies on, on one server and on a
// cluster of three, so that an upgrade which changes it is noticed here first.
// Some of it is documented nowhere else. The server is the one that is built
// in, or one that the environment names: see JETCREW_TEST_SERVER.
package pinned
