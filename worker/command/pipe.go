package command

import (
	"io"
	"os"
	"sync/atomic"
	"time"
)

// pipe carries what a program writes to a writer. (The pipes of os/exec either wait for whoever holds them, or are
// closed after a time although what the program wrote may not have been read yet.)
type pipe struct {
	from  *os.File
	to    io.Writer
	ended atomic.Bool // the program has, and so nothing of its own is written any more
	done  chan struct{}
	held  bool // once done: somebody else still holds it
}

// newPipe makes a pipe and the end of it that the program gets, to be closed here once it runs.
func newPipe(to io.Writer) (p *pipe, end *os.File, err error) {
	from, end, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &pipe{from: from, to: to, done: make(chan struct{})}, end, nil
}

// start carries until the end.
func (p *pipe) start() {
	go func() {
		defer close(p.done)
		defer p.from.Close()
		p.carry()
	}()
}

// finish is called when the program has ended: it waits until all that the program wrote has been carried, and
// for a moment longer for others to let go of the pipe. It answers whether they have.
func (p *pipe) finish() bool {
	p.ended.Store(true)
	_ = p.from.SetReadDeadline(time.Now()) // wakes carry; if the file is closed, it needs no waking
	<-p.done
	return !p.held
}

func (p *pipe) carry() {
	buf := make([]byte, 32<<10)
	own := -1          // bytes of the program's that are left in the pipe, once it has ended
	var last time.Time // for what comes after them
	for {
		ended := p.ended.Load()
		if ended {
			if own < 0 {
				own, last = waiting(p.from), time.Now().Add(pipeDelay)
			}
			limit := last
			if own > 0 {
				limit = time.Time{} // they are there
			}
			if p.from.SetReadDeadline(limit) != nil {
				return
			}
		}
		n, err := p.from.Read(buf)
		if n > 0 {
			_, _ = p.to.Write(buf[:n]) // capture and lineLog take everything
		}
		if ended {
			own = max(own-n, 0)
		}
		switch {
		case err == nil:
		case os.IsTimeout(err) && (!ended || own > 0): // woken
		default:
			p.held = os.IsTimeout(err)
			return
		}
	}
}
