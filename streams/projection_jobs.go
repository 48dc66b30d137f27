package streams

import (
	"cmp"
	"hash/maphash"
	"math"
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

// row is a job. It keeps its number for as long as the job is known.
type row struct {
	id       uint64 // in the arena
	rev      uint32 // no job is written four billion times
	pos      uint32 // in the order
	attempts uint32
	max      uint32 // the upper bits are flags
}

const (
	rowBad   = 1 << 31
	rowTold  = 1 << 30
	rowTimed = 1 << 29 // it is known when its document goes
	rowMax   = rowTimed - 1
)

const rowChunk = 4096

// chunk is a number of rows. What they are sorted by stands apart: a sort looks at all of them.
type chunk struct {
	rows    [rowChunk]row
	created [rowChunk]int64
	run     [rowChunk]int64
}

// jobs are all jobs by identity, and in the order of their last updates.
type jobs struct {
	classes classes
	table   table
	seed    maphash.Seed
	ids     arena
	chunks  []*chunk
	unused  uint32 // the first row that never was in use
	free    []uint32
	order   order

	hashed map[string]string // the names of queues whose tokens are hashes
}

func newJobs() *jobs {
	return &jobs{classes: newClasses(), seed: maphash.MakeSeed(), hashed: make(map[string]string)}
}

func (x *jobs) row(i uint32) *row { return &x.chunks[i/rowChunk].rows[i%rowChunk] }

func (x *jobs) live() int { return x.order.len() - x.order.dead }

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
	k := &x.classes.list[x.order.class[r.pos]]
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
		k := &x.classes.list[x.order.class[r.pos]]
		return k.queue == q && k.space == s && string(x.ids.get(r.id)) == id.id
	})
}

// insert adds a job that is not known.
func (x *jobs) insert(e *entry) uint32 {
	var i uint32
	if n := len(x.free); n > 0 {
		i, x.free = x.free[n-1], x.free[:n-1]
	} else {
		if int(x.unused) == len(x.chunks)*rowChunk {
			x.chunks = append(x.chunks, new(chunk))
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
	class := x.order.class[old]
	x.set(i, e) // takes its new class before the old one, and perhaps its labels, are let go
	x.classes.release(class)
	x.order.kill(old)
}

func (x *jobs) set(i uint32, e *entry) {
	if e.name != "" && strings.HasPrefix(e.queue, hashMark) {
		x.hashed[strings.Clone(e.queue)] = strings.Clone(e.name)
	}
	r := x.row(i)
	r.pos = uint32(x.order.len())
	x.order.append(e.seq, i, x.classes.take(e), e.updated)
	x.fill(i, e)
}

// refine sets a known job to what its document says in full, which so far was known from an event.
func (x *jobs) refine(i uint32, e *entry) {
	r := x.row(i)
	class := x.classes.take(e)
	x.classes.release(x.order.class[r.pos])
	x.order.class[r.pos], x.order.updated[r.pos] = class, e.updated
	x.fill(i, e)
}

// fill takes over what is known; of what an event does not say, it keeps what cannot have changed.
func (x *jobs) fill(i uint32, e *entry) {
	c, n := x.chunks[i/rowChunk], i%rowChunk
	created := cmp.Or(e.created, e.updated)
	switch {
	case e.run != 0:
		c.run[n] = e.run
	case c.created[n] != created: // otherwise it is the same job
		c.run[n] = created
	}
	c.created[n] = created
	r := &c.rows[n]
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

// remove forgets a job.
func (x *jobs) remove(i uint32) {
	r := x.row(i)
	x.table.remove(x.hashOf(r), i)
	x.classes.release(x.order.class[r.pos])
	x.order.kill(r.pos)
	x.ids.dead += len(x.ids.get(r.id))
	c, n := x.chunks[i/rowChunk], i%rowChunk
	c.rows[n], c.created[n], c.run[n] = row{}, 0, 0
	x.free = append(x.free, i)
}

// sort brings the order in order again: events come nearly so.
func (x *jobs) sort() { x.moved(x.order.sort()) }

// moved tells the rows where they are from a place on.
func (x *jobs) moved(from int) {
	for i := from; i < x.order.len(); i++ {
		if x.order.class[i] != 0 {
			x.row(x.order.row[i]).pos = uint32(i)
		}
	}
}

// bySeq finds the job whose newest document has a sequence. The order has to be sorted.
func (x *jobs) bySeq(seq uint64) (uint32, bool) {
	o := &x.order
	for i := o.search(seq); i < o.len() && o.seq[i] == seq; i++ {
		if o.class[i] != 0 {
			return o.row[i], true
		}
	}
	return 0, false
}

// tidy lets go of what is dead, once it is much. What it costs is less than what the changes since the last time did.
func (x *jobs) tidy() {
	if x.order.dead > 4096 && 3*x.order.dead > x.order.len() {
		x.sort()
		x.order.compact()
		x.moved(0)
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
	for i, class := range x.order.class {
		if class != 0 {
			e := x.entry(i)
			timed := x.row(x.order.row[i]).max & rowTimed
			fresh.row(fresh.insert(&e)).max |= timed
		}
	}
	*x = *fresh
}

// entry is what is known of the job at a place of the order.
func (x *jobs) entry(pos int) entry {
	i := x.order.row[pos]
	c, n := x.chunks[i/rowChunk], i%rowChunk
	r := &c.rows[n]
	k := &x.classes.list[x.order.class[pos]]
	return entry{
		ident: ident{x.classes.queues.names[k.queue], x.classes.spaces.names[k.space], string(x.ids.get(r.id))},
		state: states[k.state], typ: x.classes.types.names[k.typ], seq: x.order.seq[pos], rev: uint64(r.rev),
		attempts: int(r.attempts), max: int(r.max & rowMax), updated: x.order.updated[pos], created: c.created[n], run: c.run[n],
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
	return len(x.chunks)*rowChunk*40 + cap(x.free)*4 + cap(x.order.seq)*8 + cap(x.order.row)*4 + cap(x.order.class)*4 + cap(x.order.updated)*8 + cap(x.table.places)*8 + x.ids.bytes() + len(x.classes.list)*64
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// knowsQueue reports whether the name is known of the queue that a token stands for.
func (x *jobs) knowsQueue(token string) bool {
	return !strings.HasPrefix(token, hashMark) || x.hashed[token] != ""
}
