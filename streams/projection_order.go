package streams

import (
	"cmp"
	"slices"
)

// order is the jobs in the order of their last updates, in columns, so that a search for few of many reads little. A
// job that changes gets a new place in it; the old one is dead, and has no class.
type order struct {
	seq     []uint64
	row     []uint32
	class   []uint32
	updated []int64

	sorted int    // so many places stand in order;
	low    uint64 // the lowest sequence behind those
	dead   int    // so many are dead
}

func (o *order) len() int { return len(o.seq) }

func (o *order) append(seq uint64, row, class uint32, updated int64) {
	switch n := o.len(); {
	case o.sorted < n:
		o.low = min(o.low, seq)
	case n == 0 || o.seq[n-1] < seq:
		o.sorted++
	default:
		o.low = seq
	}
	o.seq, o.row = append(o.seq, seq), append(o.row, row)
	o.class, o.updated = append(o.class, class), append(o.updated, updated)
}

func (o *order) kill(pos uint32) {
	o.class[pos] = 0
	o.dead++
}

// search answers the first place of the sorted part with this sequence or a higher one.
func (o *order) search(seq uint64) int {
	i, _ := slices.BinarySearch(o.seq[:o.sorted], seq)
	return i
}

// sort brings the places in order again, and answers from where on they moved.
func (o *order) sort() int {
	n := o.len()
	if o.sorted == n {
		return n
	}
	from := o.search(o.low)
	type place struct {
		seq        uint64
		row, class uint32
		updated    int64
	}
	part := make([]place, n-from)
	for i := range part {
		part[i] = place{o.seq[from+i], o.row[from+i], o.class[from+i], o.updated[from+i]}
	}
	slices.SortFunc(part, func(a, b place) int { return cmp.Compare(a.seq, b.seq) })
	for i, p := range part {
		o.seq[from+i], o.row[from+i], o.class[from+i], o.updated[from+i] = p.seq, p.row, p.class, p.updated
	}
	o.sorted = n
	return from
}

// compact lets go of the dead.
func (o *order) compact() {
	n := 0
	for i, c := range o.class {
		if c != 0 {
			o.seq[n], o.row[n], o.class[n], o.updated[n] = o.seq[i], o.row[i], c, o.updated[i]
			n++
		}
	}
	o.seq, o.row, o.class, o.updated = o.seq[:n], o.row[:n], o.class[:n], o.updated[:n]
	o.sorted, o.dead = n, 0
}
