package streams

import (
	"slices"
	"strings"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// labels keeps each distinct string once, under a small number, for as long as a class uses it.
type labels struct {
	ids   map[string]uint32
	names []string
	refs  []int
	free  []uint32
}

func (l *labels) take(name string) uint32 {
	id, ok := l.ids[name]
	if !ok {
		name = strings.Clone(name) // it may be a part of something large
		if n := len(l.free); n > 0 {
			id, l.free = l.free[n-1], l.free[:n-1]
			l.names[id] = name
		} else {
			id = uint32(len(l.names))
			l.names = append(l.names, name)
			l.refs = append(l.refs, 0)
		}
		if l.ids == nil {
			l.ids = make(map[string]uint32)
		}
		l.ids[name] = id
	}
	l.refs[id]++
	return id
}

func (l *labels) release(id uint32) {
	if l.refs[id]--; l.refs[id] == 0 {
		delete(l.ids, l.names[id])
		l.names[id] = ""
		l.free = append(l.free, id)
	}
}

// kind is what filters ask for, but for the instants.
type kind struct {
	queue, space, typ uint32
	state             uint8
}

// class is a kind, and how many jobs are of it.
type class struct {
	kind
	n int
}

// classes are the kinds that there are jobs of. There are few of them, whatever the number of jobs: a filter is held
// against each once, and how many jobs fit is known without looking at any.
type classes struct {
	queues labels // by their tokens
	spaces labels
	types  labels
	ids    map[kind]uint32
	list   []class // number 0 is no class
	free   []uint32
}

func newClasses() classes {
	return classes{ids: make(map[kind]uint32), list: make([]class, 1)}
}

// take counts a job in.
func (c *classes) take(e *entry) uint32 {
	k := kind{c.queues.take(e.queue), c.spaces.take(e.space), c.types.take(e.typ), stateNumber(e.state)}
	id, ok := c.ids[k]
	if ok { // it holds its labels already
		c.releaseLabels(k)
	} else {
		if n := len(c.free); n > 0 {
			id, c.free = c.free[n-1], c.free[:n-1]
		} else {
			id = uint32(len(c.list))
			c.list = append(c.list, class{})
		}
		c.ids[k] = id
		c.list[id] = class{kind: k}
	}
	c.list[id].n++
	return id
}

// release counts a job out.
func (c *classes) release(id uint32) {
	if c.list[id].n--; c.list[id].n == 0 {
		k := c.list[id].kind
		delete(c.ids, k)
		c.releaseLabels(k)
		c.list[id] = class{}
		c.free = append(c.free, id)
	}
}

func (c *classes) releaseLabels(k kind) {
	c.queues.release(k.queue)
	c.spaces.release(k.space)
	c.types.release(k.typ)
}

// fitting says of each class whether a filter means it, and how many jobs are of those. Instants are left aside.
func (c *classes) fitting(f *job.Filter) (match []bool, n int) {
	match = make([]bool, len(c.list))
	var meant [len(states)]bool
	for i, s := range states {
		meant[i] = s != stateDeleted && f.FitsStatus(s.status(), job.Status(s))
	}
	spaces := make(map[uint32]bool, len(f.Spaces))
	for _, s := range f.Spaces {
		if id, ok := c.spaces.ids[s]; ok {
			spaces[id] = true
		}
	}
	queue, queueKnown := c.queues.ids[queueToken(f.Queue)]
	typ, typeKnown := c.types.ids[f.Type]
	for i := 1; i < len(c.list); i++ {
		k := &c.list[i]
		match[i] = k.n > 0 && meant[k.state] &&
			(f.AllSpaces || spaces[k.space]) &&
			(f.Queue == "" || queueKnown && k.queue == queue) &&
			(f.Type == "" || typeKnown && k.typ == typ)
		if match[i] {
			n += k.n
		}
	}
	return match, n
}

func stateNumber(s state) uint8 { return uint8(slices.Index(states[:], s)) }
