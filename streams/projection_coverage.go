package streams

// coverage says which of the stream's messages are accounted for: read, told of, or known to be gone.
type coverage struct {
	upTo uint64 // all of them up to here,
	seen map[uint64]struct{}
}

// maxSeen bounds what is remembered of the messages further on. What is forgotten is read.
const maxSeen = 1 << 20

func (c *coverage) add(seq uint64) {
	if seq <= c.upTo {
		return
	}
	if len(c.seen) >= maxSeen {
		clear(c.seen)
	}
	c.seen[seq] = struct{}{}
	c.advance()
}

// through says that everything up to a sequence is accounted for.
func (c *coverage) through(seq uint64) {
	if seq <= c.upTo {
		return
	}
	if len(c.seen) > 0 {
		if seq-c.upTo < uint64(len(c.seen)) {
			for s := c.upTo + 1; s <= seq; s++ {
				delete(c.seen, s)
			}
		} else {
			for s := range c.seen {
				if s <= seq {
					delete(c.seen, s)
				}
			}
		}
	}
	c.upTo = seq
	c.advance()
}

func (c *coverage) advance() {
	for len(c.seen) > 0 {
		if _, ok := c.seen[c.upTo+1]; !ok {
			return
		}
		c.upTo++
		delete(c.seen, c.upTo)
	}
}

// missing lists what is not accounted for up to a sequence.
func (c *coverage) missing(last uint64) (seqs []uint64) {
	for s := c.upTo + 1; s <= last; s++ {
		if _, ok := c.seen[s]; !ok {
			seqs = append(seqs, s)
		}
	}
	return seqs
}
