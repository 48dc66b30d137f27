package main

import (
	"fmt"
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct {
	raw     io.Writer
	out     io.Writer // raw, or above the bar
	all     *mpb.Progress
	bar     *mpb.Bar
	stopped bool
}

func (a *app) newProgress(total int, name string) *progress {
	p := &progress{raw: a.stderr, out: a.stderr}
	if !isTerminal(a.stderr) {
		return p
	}
	p.all = mpb.New(mpb.WithOutput(a.stderr), mpb.WithWidth(48))
	p.out = p.all
	p.bar = p.all.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name(name+" "), decor.CountersNoUnit("%d / %d")),
		mpb.AppendDecorators(decor.Percentage(), decor.Name(" "), decor.Elapsed(decor.ET_STYLE_GO)))
	return p
}

func (p *progress) set(n int) {
	if p.bar != nil && !p.stopped {
		p.bar.SetCurrent(int64(n))
	}
}

// expect says how far the bar goes, where that is not known from the beginning.
func (p *progress) expect(total int) {
	if p.bar != nil && !p.stopped {
		p.bar.SetTotal(int64(total), false)
	}
}

// printf writes a line above the bar.
func (p *progress) printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

// stop ends the bar where it stands. Calling it again does nothing.
func (p *progress) stop() {
	if p.stopped {
		return
	}
	p.stopped = true
	if p.bar != nil {
		p.bar.Abort(false)
		p.all.Wait()
		p.out = p.raw
	}
}
