package bench

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Report is what a run found.
type Report struct {
	Date     time.Time `json:"date"`
	Server   string    `json:"server"` // its version
	Go       string    `json:"go"`
	CPUs     int       `json:"cpus"` // of this process's machine
	Jobs     int       `json:"jobs"`
	Rounds   int       `json:"rounds"`
	Replicas int       `json:"replicas"`
	Figures  []Figure  `json:"figures"`
}

// Figure is one thing measured: medians over the rounds, and their spread.
type Figure struct {
	Case    string  `json:"case"`
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Raw     Spread  `json:"raw"`
	Jetcrew Spread  `json:"jetcrew"`
	Ratio   float64 `json:"ratio"` // jetcrew over raw, of the medians
	Goal    float64 `json:"goal,omitzero"`
	RawIs   string  `json:"rawIs"` // what the raw program does
}

// Spread is a median between the least and the most.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func newReport(cfg Config) Report {
	return Report{
		Date: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), CPUs: runtime.NumCPU(),
		Jobs: cfg.Jobs, Rounds: cfg.Rounds, Replicas: cfg.Replicas,
	}
}

// add takes the values of a case: for raw and jetcrew the rounds, for each round the case's figures. A case that
// was not measured on both sides has none.
func (r *Report) add(c benchCase, values [2][][]float64) {
	if len(values[0]) == 0 || len(values[1]) == 0 {
		return
	}
	for i, name := range c.figures {
		f := Figure{Case: c.name, Name: name, Unit: c.unit, RawIs: c.raw, Raw: spread(values[0], i), Jetcrew: spread(values[1], i)}
		if f.Raw.Median > 0 {
			f.Ratio = math.Round(f.Jetcrew.Median/f.Raw.Median*100) / 100
		}
		if i == 0 {
			f.Goal = c.goal
		}
		r.Figures = append(r.Figures, f)
	}
}

func spread(rounds [][]float64, i int) Spread {
	var v []float64
	for _, r := range rounds {
		v = append(v, r[i])
	}
	return Spread{Median: quantile(v, 0.5), Min: slices.Min(v), Max: slices.Max(v)}
}

// quantile q of v, by the nearest rank.
func quantile(v []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[max(0, min(len(s)-1, int(math.Ceil(q*float64(len(s))))-1))]
}

// Print writes the report as a table for people.
func (r Report) Print(w io.Writer) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"", "raw JetStream", "jetcrew", "ratio", "the raw program"})
	for _, f := range r.Figures {
		t.AppendRow(table.Row{f.Name, f.Raw.text(f.Unit), f.Jetcrew.text(f.Unit), f.ratio(), f.RawIs})
	}
	t.Render()
	fmt.Fprintf(w, "medians of %d rounds [least..most], %d jobs each, replicas %d; %s, nats-server %s, %s, %d CPUs\n",
		r.Rounds, r.Jobs, r.Replicas, r.Date.Format("2006-01-02"), r.Server, r.Go, r.CPUs)
}

func (f Figure) ratio() string {
	if f.Goal > 0 {
		return fmt.Sprintf("%.2f (goal %.2g)", f.Ratio, f.Goal)
	}
	return fmt.Sprintf("%.2f", f.Ratio)
}

func (s Spread) text(unit string) string {
	sep := ""
	if unit != "/s" {
		sep = " "
	}
	return fmt.Sprintf("%s%s%s [%s..%s]", number(s.Median), sep, unit, number(s.Min), number(s.Max))
}

func number(f float64) string {
	if math.Abs(f) >= 100 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.3g", f)
}
