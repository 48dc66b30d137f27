package worker

import (
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// maxUnhandledTypes bounds what is remembered: types are whatever producers write.
const maxUnhandledTypes = 1000

// unhandled hands back jobs of types without a handler, and reports each type once.
type unhandled struct {
	log zerolog.Logger

	mu     sync.Mutex
	counts map[string]int
	rest   int // jobs of types that were too many to remember
}

// handBack is the outcome of a job whose type has no handler here: it may have one elsewhere, or after the
// next deployment. The wait grows by as much as the job has waited already, so it doubles from one delivery
// to the next, whichever workers they go to, and nothing needs to be kept.
func (u *unhandled) handBack(j *job.Job, now time.Time, p RetryPolicy) job.Outcome {
	u.count(j)
	since := j.CreatedAt
	if j.DueAt.After(since) {
		since = j.DueAt
	}
	base, most := p.Base, p.Max
	if base == 0 || most == 0 { // a function decides, and it knows nothing of these
		base, most = defaultRetry.Base, defaultRetry.Max
	}
	delay := base
	if age := now.Sub(since); !since.IsZero() && age > 0 {
		delay = most
		if age < most-base {
			delay = age + base
		}
	}
	return job.HandBack(spread(delay), notStarted(fmt.Sprintf("no handler for type %q", j.Type)))
}

func (u *unhandled) count(j *job.Job) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counts[j.Type] == 0 {
		if len(u.counts) >= maxUnhandledTypes {
			u.rest++
			return
		}
		u.log.Warn().Str("type", j.Type).Stringer("job", j.Key()).Msg("no handler for this type: handed back; said once")
	}
	if u.counts == nil {
		u.counts = map[string]int{}
	}
	u.counts[j.Type]++
}

// report says how many there were of each type.
func (u *unhandled) report() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for typ, n := range u.counts {
		u.log.Warn().Str("type", typ).Int("handedBack", n).Msg("had no handler for this type")
	}
	if u.rest > 0 {
		u.log.Warn().Int("handedBack", u.rest).Msg("had no handler for more types than can be listed")
	}
}
