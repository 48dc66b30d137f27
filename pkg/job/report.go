package job

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Limits of what a handler's reports leave on the record.
const (
	MaxLogLines = 50  // the newest ones
	MaxLogLine  = 512 // bytes
)

// Mark says how far a job has come.
type Mark struct {
	Done float64   `json:"done"`          // in whatever the handler counts: percent, pages, bytes
	Note string    `json:"note,omitzero"` // what it counts, or is doing
	At   time.Time `json:"at,omitzero"`
}

// LogLine is one line of a job's log.
type LogLine struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Reporter takes what a running handler says of itself. A Claim may implement it.
//
// Reports are cheap: they are told live to whoever listens, and stand on the record from the next write that the
// job needs anyway, or the next heartbeat. There is never a write for each.
type Reporter interface {
	ReportProgress(done float64, note string)
	ReportLog(text string)
}

type reporterKey struct{}

// WithReporter is ctx for a handler whose reports go to r.
func WithReporter(ctx context.Context, r Reporter) context.Context {
	return context.WithValue(ctx, reporterKey{}, r)
}

// Progress says how far the job that runs under ctx has come. It does nothing outside of a job.
func Progress(ctx context.Context, done float64, note string) {
	if r, ok := ctx.Value(reporterKey{}).(Reporter); ok {
		r.ReportProgress(done, note)
	}
}

// Logf adds a line to the log of the job that runs under ctx. The record keeps the newest MaxLogLines. It does
// nothing outside of a job.
func Logf(ctx context.Context, format string, args ...any) {
	if r, ok := ctx.Value(reporterKey{}).(Reporter); ok {
		r.ReportLog(fmt.Sprintf(format, args...))
	}
}

// SetProgress notes on the record how far the job has come.
func (j *Job) SetProgress(done float64, note string, at time.Time) {
	if math.IsNaN(done) || math.IsInf(done, 0) {
		done = 0 // JSON has no words for it
	}
	j.Progress = &Mark{Done: done, Note: cutText(note, MaxLogLine), At: Millis(at)}
}

// AddLog adds text to the record's log, each of its lines by itself, and answers the lines that it kept of them.
func (j *Job) AddLog(text string, at time.Time) []LogLine {
	log := slices.Clip(j.Log)
	added := 0
	for line := range strings.Lines(text) {
		log = append(log, LogLine{At: Millis(at), Text: cutText(strings.TrimRight(line, "\r\n"), MaxLogLine)})
		added++
		if len(log) > 2*MaxLogLines {
			log = slices.Clone(log[len(log)-MaxLogLines:])
		}
	}
	if over := len(log) - MaxLogLines; over > 0 {
		log = log[over:]
	}
	j.Log = log
	return log[len(log)-min(added, len(log)):]
}
