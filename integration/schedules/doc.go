// Package schedules holds tests that end, freeze and cut off real processes of a fleet that fires schedules, and the
// server under it. Afterwards each promised instant is accounted for from what the stream and the schedules say: it has
// one job, or is one of those that another one's job stands for.
//
// With -short there are fewer faults, and the takeover with the default lease is left out.
package schedules
