package kvbucket

import "sync"

// recentKeys is how many keys a process remembers the revision of.
const recentKeys = 8192

// recent is what this process knows of the revisions of the keys that it used last, so that a replica that is behind does
// not answer it with what it knows to be past.
type recent struct {
	mu    sync.Mutex
	known map[string]revision // by subject
	order [recentKeys]string  // a ring of the subjects, in the order in which they became known
	next  int
}

// revision of a key: the last that was heard of, and whether the leader said that nothing is there any more.
type revision struct {
	seq  uint64
	gone bool
}

// learn notes a revision.
func (r *recent) learn(subject string, seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, ok := r.known[subject]
	switch {
	case ok && seq < have.seq:
		return
	case !ok:
		if r.known == nil {
			r.known = make(map[string]revision)
		}
		delete(r.known, r.order[r.next])
		r.order[r.next] = subject
		r.next = (r.next + 1) % recentKeys
	}
	r.known[subject] = revision{seq: seq}
}

// forget makes it know nothing.
func (r *recent) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.known)
	clear(r.order[:])
}

// vanished notes that the leader has nothing of a key, however long ago it went.
func (r *recent) vanished(subject string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if have, ok := r.known[subject]; ok {
		r.known[subject] = revision{have.seq, true}
	}
}

// past reports whether an answer (the sequence 0 is that of nothing) is known to be past.
func (r *recent) past(subject string, seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, ok := r.known[subject]
	switch {
	case !ok:
		return false
	case seq == 0:
		return !have.gone
	case have.gone:
		return seq <= have.seq
	default:
		return seq < have.seq
	}
}
