package streams

// table finds a job's row by the hash of its identity: open addressing, eight bytes a place. A place holds 32 bits of
// the hash above the row's number plus one; 0 is free.
type table struct {
	places []uint64
	n      int
}

func (t *table) mask() uint32 { return uint32(len(t.places) - 1) }

// find answers the row of that hash which eq recognises.
func (t *table) find(hash uint32, eq func(row uint32) bool) (row uint32, ok bool) {
	if t.n == 0 {
		return 0, false
	}
	for i := hash & t.mask(); ; i = (i + 1) & t.mask() {
		p := t.places[i]
		if p == 0 {
			return 0, false
		}
		if uint32(p>>32) == hash && eq(uint32(p)-1) {
			return uint32(p) - 1, true
		}
	}
}

// insert puts in a row that is not there.
func (t *table) insert(hash, row uint32) {
	if 4*(t.n+1) > 3*len(t.places) {
		old := t.places
		t.places = make([]uint64, max(64, 2*len(old)))
		for _, p := range old {
			if p != 0 {
				t.place(p)
			}
		}
	}
	t.place(uint64(hash)<<32 | uint64(row+1))
	t.n++
}

func (t *table) place(p uint64) {
	i := uint32(p>>32) & t.mask()
	for t.places[i] != 0 {
		i = (i + 1) & t.mask()
	}
	t.places[i] = p
}

// remove takes out a row that is there, and closes the gap.
func (t *table) remove(hash, row uint32) {
	want := uint64(hash)<<32 | uint64(row+1)
	i := hash & t.mask()
	for t.places[i] != want {
		i = (i + 1) & t.mask()
	}
	for j := i; ; {
		j = (j + 1) & t.mask()
		p := t.places[j]
		if p == 0 {
			break
		}
		// It may move up unless its own place lies behind the gap.
		if home := uint32(p>>32) & t.mask(); (j-home)&t.mask() >= (j-i)&t.mask() {
			t.places[i] = p
			i = j
		}
	}
	t.places[i] = 0
	t.n--
}

// arena holds the jobs' ids end to end: a string of its own would cost 30 bytes more for each.
type arena struct {
	chunks [][]byte
	size   int // bytes in use
	dead   int // bytes of ids that are gone
}

const (
	arenaLeast = 4 << 10
	arenaChunk = 1 << 20
)

// put answers where the id stands from now on: chunk, offset (24 bits), length (8 bits).
func (a *arena) put(id string) uint64 {
	n := len(a.chunks)
	if n == 0 || len(a.chunks[n-1])+len(id) > cap(a.chunks[n-1]) {
		a.chunks = append(a.chunks, make([]byte, 0, min(max(a.size, arenaLeast), arenaChunk)))
		n++
	}
	c := &a.chunks[n-1]
	at := uint64(n-1)<<32 | uint64(len(*c))<<8 | uint64(len(id))
	*c = append(*c, id...)
	a.size += len(id)
	return at
}

func (a *arena) get(at uint64) []byte {
	off, n := at>>8&(1<<24-1), at&0xff
	return a.chunks[at>>32][off : off+n]
}

func (a *arena) bytes() (n int) {
	for _, c := range a.chunks {
		n += cap(c)
	}
	return n
}
