package command

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Exit codes with a meaning of their own, named as in sysexits.h. 0 is success; any other code, and death
// by a signal, fails the attempt, which is tried again while attempts are left.
const (
	ExitGiveUp = 65 // EX_DATAERR: no attempt can succeed; the job ends dead
	ExitLater  = 75 // EX_TEMPFAIL: try later, without using an attempt
	ExitRefuse = 77 // EX_NOPERM: the work is refused; the job ends failed
)

// CodeRefused is the code of the refusal that ExitRefuse makes.
const CodeRefused job.Code = "refused"

// The waits that a program may ask for.
const (
	minDelay = time.Second
	maxDelay = 24 * time.Hour
)

// ended is how a program ended.
type ended struct {
	state *os.ProcessState
	why   error // it was told to end, for this reason
	out   *capture
	tail  []string // of standard error
}

// answer is what a program's end means for its job.
func (e ended) answer() (any, error) {
	if e.state.Success() && e.why == nil {
		return e.result()
	}
	delay, asked, tail := retryAfter(e.tail)
	said := strings.Join(tail, "\n")
	code := e.state.ExitCode()
	switch code {
	case ExitGiveUp:
		return nil, job.GiveUp(errors.New(e.text("gave up", said)))
	case ExitRefuse:
		message := "the program refused the job"
		if len(tail) > 0 {
			message = tail[len(tail)-1]
		}
		return nil, job.Refuse(CodeRefused, message)
	case ExitLater:
		if asked {
			return nil, job.Snooze(delay, e.text("asked to be run later", said))
		}
		return nil, job.Refuse(job.CodeOverCapacity, e.text("asked to be run later", said))
	}
	err := errors.New(e.text("", said))
	if asked {
		return nil, job.RetryAfter(delay, err)
	}
	return nil, err
}

// text says how the program ended, and what it said.
func (e ended) text(meaning, said string) string {
	how := fmt.Sprintf("exit code %d", e.state.ExitCode())
	if s := deathBy(e.state); s != "" {
		how = "the program was ended by " + s
	}
	if meaning != "" {
		how = fmt.Sprintf("the program %s (%s)", meaning, how)
	}
	if e.why != nil {
		how += ", after it was told to stop"
	}
	if said != "" {
		how += ": " + said
	}
	return how
}

// result is what the program wrote: JSON as it is, other text as a string, nothing as no result.
func (e ended) result() (any, error) {
	if e.out.over() {
		return nil, job.GiveUp(fmt.Errorf("the program succeeded, but its result is refused: it wrote %d bytes to standard output, at most %d are allowed",
			e.out.total, e.out.limit))
	}
	text := strings.TrimSpace(e.out.kept.String())
	if text == "" {
		return nil, nil
	}
	if v := jsontext.Value(text); v.IsValid() {
		return v, nil
	}
	return strings.ToValidUTF8(text, "\uFFFD"), nil
}

var retryLine = regexp.MustCompile(`(?i)^retry-after:\s*(\S+)$`)

// retryAfter is the wait that the last line of standard error asks for, as "retry-after: 30s" or in seconds, and
// the lines without it.
func retryAfter(tail []string) (delay time.Duration, asked bool, rest []string) {
	if len(tail) == 0 {
		return 0, false, tail
	}
	last := len(tail) - 1
	m := retryLine.FindStringSubmatch(strings.TrimSpace(tail[last]))
	if m == nil {
		return 0, false, tail
	}
	d, err := time.ParseDuration(m[1])
	if n, numeric := strconv.ParseUint(m[1], 10, 32); numeric == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < 0 {
		return 0, false, tail
	}
	return min(max(d, minDelay), maxDelay), true, tail[:last]
}
