package command

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/rs/zerolog"
)

// Limits of what one attempt writes to standard error.
const (
	maxLine     = 4 << 10   // bytes of a line; the rest of it is dropped
	maxLogLines = 1000      // logged lines
	maxLogBytes = 256 << 10 // logged bytes
	maxTail     = 1500      // bytes kept for the attempt's error, which holds a little more besides
)

// capture keeps the first limit bytes that it is given, takes all others, and counts.
type capture struct {
	limit int
	kept  bytes.Buffer
	total int64
}

func (c *capture) Write(p []byte) (int, error) {
	c.total += int64(len(p))
	c.kept.Write(p[:min(len(p), c.limit-c.kept.Len())])
	return len(p), nil
}

func (c *capture) over() bool { return c.total > int64(c.limit) }

// lineLog logs what it is given, line by line, within limits, and keeps the last lines. Secrets are taken out of
// whole lines, so that none is cut in two and overlooked; and only out of what is logged or kept in the end,
// since a program that says much is not to wait for that.
type lineLog struct {
	log    zerolog.Logger
	redact func(string) string
	say    func(string) // to the job's own log

	line    []byte
	dropped bool // the rest of this line
	lines   int
	bytes   int
	omitted int
	tail    []string // with secrets, until end
	tailLen int
}

func (l *lineLog) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		at := bytes.IndexAny(p, "\r\n")
		piece := p
		if at >= 0 {
			piece = p[:at]
		}
		room := maxLine - len(l.line)
		l.line = append(l.line, piece[:min(len(piece), room)]...)
		l.dropped = l.dropped || len(piece) > room
		if at < 0 {
			break
		}
		l.flush()
		p = p[at+1:]
	}
	return n, nil
}

// flush ends the line.
func (l *lineLog) flush() {
	raw := l.line
	if l.dropped { // maybe in the middle of a rune
		for len(raw) > 0 && !utf8.Valid(raw[max(0, len(raw)-utf8.UTFMax):]) && len(raw) > len(l.line)-utf8.UTFMax {
			raw = raw[:len(raw)-1]
		}
	}
	text := strings.TrimRight(strings.ToValidUTF8(string(raw), "\uFFFD"), " \t")
	dropped := l.dropped
	l.line, l.dropped = l.line[:0], false
	if text == "" {
		return
	}
	l.keep(text, dropped)
	if l.lines >= maxLogLines || l.bytes+len(text) > maxLogBytes {
		l.omitted++
		return
	}
	l.lines++
	l.bytes += len(text)
	text = marked(l.redact(text), dropped)
	l.log.Info().Str("stderr", text).Msg("the program says")
	l.say(text)
}

func marked(text string, cut bool) string {
	if cut {
		return text + "…"
	}
	return text
}

// keep appends to the tail, and lets go of its oldest lines.
func (l *lineLog) keep(text string, cut bool) {
	text = marked(text, cut)
	l.tail = append(l.tail, text)
	l.tailLen += len(text) + 1
	for len(l.tail) > 1 && l.tailLen > maxTail {
		l.tailLen -= len(l.tail[0]) + 1
		l.tail = l.tail[1:]
	}
}

// end is called once nothing is written any more.
func (l *lineLog) end() {
	l.flush()
	for i, line := range l.tail {
		line = l.redact(line)
		if len(line) > maxTail {
			line = strings.ToValidUTF8(line[:maxTail], "") + "…"
		}
		l.tail[i] = line
	}
	if l.omitted > 0 {
		l.log.Warn().Int("lines", l.omitted).Msg("the program said more than is logged")
	}
}
