package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// lookout knows all schedules, and has those that are due fired. It reads them anew every minute and after a reconnect, as
// a watch may be deaf and not know it; meanwhile, what is known already goes on firing.
type lookout struct {
	f     *Firer
	alive func()

	known *board
	watch jetstream.KeyWatcher // tells known of changes; nil: nothing does

	fresh  *board               // is being read, and takes known's place then; nil: none is
	reader jetstream.KeyWatcher // of fresh
	end    *time.Timer          // until when it has to be read

	begin  *time.Timer // when the next reading begins
	failed int         // readings that came to nothing, one after the other

	groups   sync.WaitGroup
	done     chan []*firing // groups that were fired
	underWay int            // fires
	suspects int            // groups of fires that failed before
}

func (f *Firer) lookOut(alive func()) *lookout {
	l := &lookout{f: f, alive: alive, known: newBoard(), begin: time.NewTimer(0), end: time.NewTimer(0), done: make(chan []*firing)}
	l.end.Stop()
	return l
}

// run looks out until ctx ends.
func (l *lookout) run(ctx context.Context) {
	connected := l.f.store.nc.StatusChanged(nats.CONNECTED)
	defer l.f.store.nc.RemoveStatusListener(connected)
	defer l.begin.Stop()
	defer l.end.Stop()
	defer func() { stop(l.watch); stop(l.reader) }()
	defer l.await()
	look := time.NewTimer(lookAtLeast)
	defer look.Stop()
	for ctx.Err() == nil {
		var err error
		select {
		case e, ok := <-updates(l.watch):
			err = l.changed(e, ok)
		case e, ok := <-updates(l.reader):
			err = l.read(e, ok)
		case <-l.end.C:
			err = errors.New("the list has no end")
		case <-l.begin.C:
			err = l.start(ctx)
		case <-connected:
			err = l.start(ctx)
		case group := <-l.done:
			l.after(group)
		case <-look.C:
			l.f.made(l.known)
		case <-ctx.Done():
			return
		}
		if err != nil && ctx.Err() == nil {
			l.fail(err)
		}
		l.alive()
		l.launch(ctx)
		look.Reset(l.wait())
	}
}

// launch has fired what is due, as far as there is room.
func (l *lookout) launch(ctx context.Context) {
	n := min(batch, underWay-l.underWay)
	if n <= 0 {
		return
	}
	for _, group := range l.f.due(l.known, l.f.store.clock.Now(), n, suspects-l.suspects) {
		l.underWay += len(group)
		if group[0].failed > 0 {
			l.suspects++
		}
		l.groups.Go(func() {
			l.f.fire(ctx, group)
			l.done <- group
		})
	}
}

// wait is for how long there is nothing to launch.
func (l *lookout) wait() time.Duration {
	at, ok := l.known.next()
	if !ok || l.underWay >= underWay {
		return lookAtLeast
	}
	return min(lookAtLeast, max(0, at.Sub(l.f.store.clock.Now())))
}

// after takes in what became of a group.
func (l *lookout) after(group []*firing) {
	l.underWay -= len(group)
	if group[0].failed > 0 {
		l.suspects--
	}
	for _, fi := range group {
		l.f.after(l.known, fi)
	}
}

// await waits for what is under way. It ends soon after the lead.
func (l *lookout) await() {
	go func() {
		l.groups.Wait()
		close(l.done)
	}()
	for group := range l.done {
		l.after(group)
	}
}

// updates is what a watch tells; it blocks for ever where there is none.
func updates(w jetstream.KeyWatcher) <-chan jetstream.KeyValueEntry {
	if w == nil {
		return nil
	}
	return w.Updates()
}

func stop(w jetstream.KeyWatcher) {
	if w != nil {
		_ = w.Stop() // it has ended by itself, or ends with the connection
	}
}

// changed takes in what the watch tells.
func (l *lookout) changed(e jetstream.KeyValueEntry, ok bool) error {
	switch {
	case !ok:
		l.watch = nil
		return errors.New("the watch was broken off")
	case e != nil:
		l.f.take(l.known, e)
	}
	return nil
}

// start begins a reading, instead of one that goes on.
func (l *lookout) start(ctx context.Context) error {
	stop(l.reader)
	l.reader = nil
	w, err := l.f.store.kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	l.reader, l.fresh = w, newBoard()
	l.known.heir = l.fresh
	l.end.Reset(opTimeout)
	l.begin.Stop()
	return nil
}

// read takes in what is being read. At its end, that is what counts, and what follows are changes.
func (l *lookout) read(e jetstream.KeyValueEntry, ok bool) error {
	switch {
	case !ok:
		l.reader = nil
		return errors.New("the list was broken off")
	case e != nil:
		l.take(e)
	default:
		l.end.Stop()
		l.begin.Reset(l.f.relist)
		l.fresh.inherit(l.known)
		stop(l.watch)
		l.known, l.watch = l.fresh, l.reader
		l.fresh, l.reader = nil, nil
		if l.failed > 0 {
			l.f.log.Info().Int("failed", l.failed).Msg("schedules are read again")
		}
		l.failed = 0
	}
	return nil
}

// fail ends a reading, and has another one begin soon.
func (l *lookout) fail(err error) {
	stop(l.reader)
	l.fresh, l.reader, l.known.heir = nil, nil, nil
	l.end.Stop()
	l.begin.Reset(time.Second)
	if l.failed++; l.failed == 1 {
		l.f.log.Warn().Err(err).Msg("schedules cannot be read")
	}
}

// take takes what is stored under a key over into the fresh board. What is known of it at another revision, be it a higher
// one, counts no more, since a bucket may have been made anew.
func (l *lookout) take(e jetstream.KeyValueEntry) {
	it := l.known.items[e.Key()]
	if it == nil || it.rev != e.Revision() || it.place < 0 && it.body != nil || e.Operation() != jetstream.KeyValuePut {
		l.f.take(l.fresh, e)
		return
	}
	l.fresh.set(e.Key(), it.rev, it.body, it.at)
}
