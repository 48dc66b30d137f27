package streams

// expiring is a document that goes at an instant.
type expiring struct {
	at  int64
	seq uint64
}

// expiries is a heap by instant. (container/heap would box every entry.)
type expiries []expiring

func (h *expiries) push(e expiring) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up].at <= s[i].at {
			break
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

func (h *expiries) pop() expiring {
	s := *h
	top := s[0]
	n := len(s) - 1
	s[0] = s[n]
	s = s[:n]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if s[c].at < s[least].at {
				least = c
			}
		}
		if least == i {
			break
		}
		s[least], s[i] = s[i], s[least]
		i = least
	}
	*h = s
	return top
}
