// Package operating measures what it costs to operate jetcrew on top of many records: pages, counts, reads and
// cancellations, the projection, and what a page a second takes from workers that drain a queue. As a test it only looks
// whether the answers are right, on few records; `make bench-operating RECORDS=1000000` prints figures.
package operating
