package guard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Kind says which budget a run draws on.
type Kind string

// The kinds of runs.
const (
	KindCall   Kind = "call"
	KindRender Kind = "render"
)

// admit takes a run in, if the caps allow one more.
func (g *Guards) admit(r *Run) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	kind, space := r.info.Kind, r.info.Space
	limit := g.cfg.Calls
	if kind == KindRender {
		limit = g.cfg.Renders
	}
	if limit > 0 && g.kinds[kind] >= limit {
		return overCapacity(fmt.Sprintf("too many %ss are running here", kind))
	}
	if kind == KindCall {
		if limit := g.cfg.CallsPerSpace; limit > 0 && g.calls[space] >= limit {
			return overCapacity("too many calls of this space are running here")
		}
		g.calls[space]++
	}
	g.kinds[kind]++
	g.runs[r] = struct{}{}
	return nil
}

// dismiss makes room for another one.
func (g *Guards) dismiss(r *Run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.runs, r)
	g.kinds[r.info.Kind]--
	if r.info.Kind != KindCall {
		return
	}
	if g.calls[r.info.Space]--; g.calls[r.info.Space] == 0 {
		delete(g.calls, r.info.Space)
	}
}

func overCapacity(why string) error {
	return job.Refuse(job.CodeOverCapacity, "over_capacity: "+why+"; please try again in a moment")
}

// Info is what is known of a run of this process.
type Info struct {
	RunID   string
	Kind    Kind
	Space   string
	Type    string
	Caller  string
	Job     job.Key
	Started time.Time
	Timeout time.Duration
}

// Active lists what goes on in this process, the oldest first.
func (g *Guards) Active() []Info {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]Info, 0, len(g.runs))
	for r := range g.runs {
		if r.begun {
			all = append(all, r.info)
		}
	}
	slices.SortFunc(all, func(a, b Info) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.RunID, b.RunID))
	})
	return all
}

// Get finds a run of this process: the oldest, where several go by that id.
func (g *Guards) Get(space, runID string) (Info, bool) {
	for _, info := range g.Active() {
		if info.Space == space && info.RunID == runID {
			return info, true
		}
	}
	return Info{}, false
}
