// Package faketime tests what takes hours and days, in seconds: the real server, its clients and ours in a bubble of
// fake time (testing/synctest), in which the clock moves on only while everything waits. So an instant can be asserted to
// the millisecond, however busy the machine is.
//
// There is nothing here to import.
package faketime
