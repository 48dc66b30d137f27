// Package bench measures jetcrew beside raw JetStream doing the same writes, in the same run: on a machine that
// is shared absolute figures drift, and only the ratios say something.
package bench

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Case is one thing measured: jetcrew, and the raw program beside it.
type Case struct {
	Name string
	Unit string // "/s", or "ms"
	Raw  func() (float64, error)
	Ours func() (float64, error)
	// Note says what the raw program does.
	Note string
}

// Result of a case, over several rounds.
type Result struct {
	Name, Unit, Note string
	Raw, Ours        []float64
}

// Run measures raw and ours by turns, so that a drift of the machine meets both.
func Run(c Case, rounds int) (Result, error) {
	r := Result{Name: c.Name, Unit: c.Unit, Note: c.Note}
	for range rounds {
		raw, err := c.Raw()
		if err != nil {
			return r, fmt.Errorf("%s, raw: %w", c.Name, err)
		}
		ours, err := c.Ours()
		if err != nil {
			return r, fmt.Errorf("%s: %w", c.Name, err)
		}
		r.Raw, r.Ours = append(r.Raw, raw), append(r.Ours, ours)
	}
	return r, nil
}

// Ratio is ours over raw, of the medians.
func (r Result) Ratio() float64 { return Median(r.Ours) / Median(r.Raw) }

// Print writes one line: medians, spreads and the ratio.
func (r Result) Print(w io.Writer) {
	fmt.Fprintf(w, "%-34s raw %10s  jetcrew %10s  ratio %.2f   %s\n", r.Name, spread(r.Raw, r.Unit), spread(r.Ours, r.Unit), r.Ratio(), r.Note)
}

func spread(v []float64, unit string) string {
	return fmt.Sprintf("%s%s [%s..%s]", figure(Median(v)), unit, figure(slices.Min(v)), figure(slices.Max(v)))
}

func figure(f float64) string {
	if f >= 100 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.3g", f)
}

// Median of v.
func Median(v []float64) float64 { return Quantile(v, 0.5) }

// Quantile q of v.
func Quantile(v []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

// rate is n over the time since start, per second.
func rate(n int, start time.Time) float64 { return float64(n) / time.Since(start).Seconds() }
