package streams

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// ident is a job's identity; the queue is named by its token.
type ident struct{ queue, space, id string }

// identOf reads an identity from what a job's subjects have in common; ok is false where no job can have that.
func identOf(tail string) (ident, bool) {
	key, err := parseTail(tail)
	if err != nil || key.Space == "" || key.ID == "" {
		return ident{}, false
	}
	return ident{tail[:strings.IndexByte(tail, '.')], key.Space, key.ID}, true
}

func (i ident) tail() string { return i.queue + "." + escape(i.space) + "." + escape(i.id) }

// entry is what the index keeps of a document. Instants are milliseconds since 1970.
type entry struct {
	ident
	name     string // of the queue, where a document says so
	state    state
	typ      string
	seq, rev uint64
	attempts int
	max      int // attempts; 0: not known
	updated  int64
	created  int64 // 0: not known
	run      int64 // 0: not known
	expires  int64 // 0: never
	bad      bool  // it cannot be read as a job
	told     bool  // known from an event alone
}

// row is a job. It keeps its place for as long as the job is known.
type row struct {
	updated, created, run int64
	id                    uint64 // in the arena
	rev                   uint32 // no job is written four billion times
	pos                   uint32 // in the order
	attempts              uint32
	max                   uint32 // the upper bits are flags
}

const (
	rowBad   = 1 << 31
	rowTold  = 1 << 30
	rowTimed = 1 << 29 // it is known when its document goes
	rowMax   = rowTimed - 1
)

// slot is a job in the order of updates, or was: a job that changes gets a new one. Those without a class are dead.
type slot struct {
	seq   uint64
	row   uint32
	class uint32
}

const rowChunk = 4096

// jobs are all jobs by identity, and in the order of their last updates.
type jobs struct {
	classes classes
	table   table
	seed    maphash.Seed
	ids     arena
	rows    [][]row
	unused  uint32 // the first row that never was in use
	free    []uint32

	order  []slot
	sorted int    // so many of them stand in order;
	low    uint64 // the lowest sequence behind those
	dead   int    // so many of them are dead

	hashed map[string]string // the names of queues whose tokens are hashes
}

func newJobs() *jobs {
	return &jobs{classes: newClasses(), seed: maphash.MakeSeed(), hashed: make(map[string]string)}
}

func (x *jobs) row(i uint32) *row { return &x.rows[i/rowChunk][i%rowChunk] }

func (x *jobs) live() int { return len(x.order) - x.dead }

// visible is how many jobs there are for those who ask.
func (x *jobs) visible() int {
	_, n := x.classes.fitting(&job.Filter{AllSpaces: true})
	return n
}

func (x *jobs) hash(id ident) (uint32, bool) {
	q, ok := x.classes.queues.ids[id.queue]
	if !ok {
		return 0, false
	}
	s, ok := x.classes.spaces.ids[id.space]
	if !ok {
		return 0, false
	}
	return mix(maphash.String(x.seed, id.id), q, s), true
}

func (x *jobs) hashOf(r *row) uint32 {
	k := &x.classes.list[x.order[r.pos].class]
	return mix(maphash.Bytes(x.seed, x.ids.get(r.id)), k.queue, k.space)
}

func mix(h uint64, queue, space uint32) uint32 {
	h ^= uint64(queue)*0x9E3779B97F4A7C15 ^ uint64(space)*0xC2B2AE3D27D4EB4F
	h ^= h >> 29
	h *= 0xBF58476D1CE4E5B9
	return uint32(h >> 32)
}

// find answers a job's row.
func (x *jobs) find(id ident) (uint32, bool) {
	h, ok := x.hash(id)
	if !ok {
		return 0, false
	}
	q, s := x.classes.queues.ids[id.queue], x.classes.spaces.ids[id.space]
	return x.table.find(h, func(i uint32) bool {
		r := x.row(i)
		k := &x.classes.list[x.order[r.pos].class]
		return k.queue == q && k.space == s && string(x.ids.get(r.id)) == id.id
	})
}

// insert adds a job that is not known.
func (x *jobs) insert(e *entry) uint32 {
	var i uint32
	if n := len(x.free); n > 0 {
		i, x.free = x.free[n-1], x.free[:n-1]
	} else {
		if int(x.unused) == len(x.rows)*rowChunk {
			x.rows = append(x.rows, make([]row, rowChunk))
		}
		i = x.unused
		x.unused++
	}
	*x.row(i) = row{id: x.ids.put(e.id)}
	x.set(i, e)
	h, _ := x.hash(e.ident)
	x.table.insert(h, i)
	return i
}

// replace sets a known job to what it is now.
func (x *jobs) replace(i uint32, e *entry) {
	old := x.row(i).pos
	class := x.order[old].class
	x.set(i, e) // takes its new class before the old one, and perhaps its labels, are let go
	x.classes.release(class)
	x.order[old].class = 0
	x.dead++
}

func (x *jobs) set(i uint32, e *entry) {
	if e.name != "" && strings.HasPrefix(e.queue, hashMark) {
		x.hashed[strings.Clone(e.queue)] = strings.Clone(e.name)
	}
	r := x.row(i)
	r.pos = uint32(len(x.order))
	x.append(slot{e.seq, i, x.classes.take(e)})
	x.fill(r, e)
}

// refine sets a known job to what its document says in full, which so far was known from an event.
func (x *jobs) refine(i uint32, e *entry) {
	r := x.row(i)
	p := &x.order[r.pos]
	class := x.classes.take(e)
	x.classes.release(p.class)
	p.class = class
	x.fill(r, e)
}

// fill takes over what is known; of what an event does not say, it keeps what cannot have changed.
func (x *jobs) fill(r *row, e *entry) {
	created := cmp.Or(e.created, e.updated)
	if e.run == 0 && created != r.created {
		r.run = created
	}
	r.updated, r.created, r.run = e.updated, created, cmp.Or(e.run, r.run)
	r.rev = uint32(min(e.rev, math.MaxUint32))
	r.attempts = uint32(min(max(e.attempts, 0), math.MaxUint32))
	r.max = cmp.Or(uint32(min(max(e.max, 0), rowMax)), r.max&rowMax)
	if e.bad {
		r.max |= rowBad
	}
	if e.told {
		r.max |= rowTold
	}
}

func (x *jobs) append(p slot) {
	switch n := len(x.order); {
	case x.sorted < n:
		x.low = min(x.low, p.seq)
	case n == 0 || x.order[n-1].seq < p.seq:
		x.sorted++
	default:
		x.low = p.seq
	}
	x.order = append(x.order, p)
}

// remove forgets a job.
func (x *jobs) remove(i uint32) {
	r := x.row(i)
	x.table.remove(x.hashOf(r), i)
	p := &x.order[r.pos]
	x.classes.release(p.class)
	p.class = 0
	x.dead++
	x.ids.dead += len(x.ids.get(r.id))
	*r = row{}
	x.free = append(x.free, i)
}

// sort brings the order in order again: events come nearly so.
func (x *jobs) sort() {
	if x.sorted == len(x.order) {
		return
	}
	from := x.search(x.low)
	part := x.order[from:]
	slices.SortFunc(part, func(a, b slot) int { return cmp.Compare(a.seq, b.seq) })
	for i, p := range part {
		if p.class != 0 {
			x.row(p.row).pos = uint32(from + i)
		}
	}
	x.sorted = len(x.order)
}

// search answers the first place of the sorted part with this sequence or a higher one.
func (x *jobs) search(seq uint64) int {
	i, _ := slices.BinarySearchFunc(x.order[:x.sorted], seq, func(p slot, seq uint64) int { return cmp.Compare(p.seq, seq) })
	return i
}

// bySeq finds the job whose newest document has a sequence. The order has to be sorted.
func (x *jobs) bySeq(seq uint64) (uint32, bool) {
	for i := x.search(seq); i < len(x.order) && x.order[i].seq == seq; i++ {
		if x.order[i].class != 0 {
			return x.order[i].row, true
		}
	}
	return 0, false
}

// tidy lets go of what is dead, once it is much. What it costs is less than what the changes since the last time did.
func (x *jobs) tidy() {
	if x.dead > 4096 && 3*x.dead > len(x.order) {
		x.sort()
		x.order = slices.DeleteFunc(x.order, func(p slot) bool { return p.class == 0 })
		for i, p := range x.order {
			x.row(p.row).pos = uint32(i)
		}
		x.sorted, x.dead = len(x.order), 0
	}
	if x.ids.dead > arenaChunk && 2*x.ids.dead > x.ids.size || len(x.free) > 16*rowChunk && 2*len(x.free) > int(x.unused) {
		x.repack()
	}
}

// repack makes everything anew, without what is dead.
func (x *jobs) repack() {
	x.sort()
	fresh := newJobs()
	fresh.hashed = x.hashed
	fresh.order = make([]slot, 0, x.live()+x.live()/8)
	for i := range x.order {
		if x.order[i].class != 0 {
			e := x.entry(i)
			timed := x.row(x.order[i].row).max & rowTimed
			fresh.row(fresh.insert(&e)).max |= timed
		}
	}
	*x = *fresh
}

// entry is what is known of the job at a place of the order.
func (x *jobs) entry(pos int) entry {
	p := x.order[pos]
	r := x.row(p.row)
	k := &x.classes.list[p.class]
	return entry{
		ident: ident{x.classes.queues.names[k.queue], x.classes.spaces.names[k.space], string(x.ids.get(r.id))},
		state: states[k.state], typ: x.classes.types.names[k.typ], seq: p.seq, rev: uint64(r.rev),
		attempts: int(r.attempts), max: int(r.max & rowMax), updated: r.updated, created: r.created, run: r.run,
		bad: r.max&rowBad != 0, told: r.max&rowTold != 0,
	}
}

// record is a job as the index knows it.
func (x *jobs) record(e *entry) *job.Job {
	return &job.Job{
		ID: e.id, Space: e.space, Type: e.typ, Queue: x.queueName(e.queue), Status: e.state.status(),
		Attempts: e.attempts, MaxAttempts: e.max,
		CreatedAt: instant(e.created), UpdatedAt: instant(e.updated), RunAt: instant(e.run),
	}
}

// queueName is the queue that a token stands for.
func (x *jobs) queueName(token string) string {
	if strings.HasPrefix(token, hashMark) {
		return cmp.Or(x.hashed[token], token)
	}
	name, _ := unescape(token) // what is indexed has been read
	return name
}

// totals counts the jobs.
func (x *jobs) totals() *job.Counts {
	c := &job.Counts{Queues: make(map[string]job.QueueCounts)}
	for i := range x.classes.list {
		k := &x.classes.list[i]
		if k.n == 0 {
			continue
		}
		name := x.queueName(x.classes.queues.names[k.queue])
		q := c.Queues[name]
		switch states[k.state] {
		case stateReady:
			c.Ready += k.n
			q.Ready += k.n
		case stateDue:
			c.Due += k.n
		case stateRunning:
			c.Running += k.n
			q.Running += k.n
		case stateSucceeded:
			c.Succeeded += k.n
		case stateFailed:
			c.Failed += k.n
		case stateDead:
			c.Dead += k.n
		case stateCancelled:
			c.Cancelled += k.n
		default: // hidden
			continue
		}
		c.Queues[name] = q
	}
	return c
}

func (x *jobs) bytes() int {
	return len(x.rows)*rowChunk*48 + cap(x.free)*4 + cap(x.order)*16 + cap(x.table.places)*8 + x.ids.bytes() + len(x.classes.list)*64
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// knowsQueue reports whether the name is known of the queue that a token stands for.
func (x *jobs) knowsQueue(token string) bool {
	return !strings.HasPrefix(token, hashMark) || x.hashed[token] != ""
}
