package job

import "time"

// Listing is a page of jobs as a document.
type Listing struct {
	Jobs     []*Job    `json:"jobs"`
	Next     string    `json:"next,omitzero"`
	Total    *int      `json:"total,omitzero"` // none: not counted
	Seq      uint64    `json:"seq,omitzero"`
	At       time.Time `json:"at,omitzero"`
	Stopped  bool      `json:"stopped,omitzero"`
	Looked   int       `json:"looked,omitzero"`
	LookedTo time.Time `json:"lookedTo,omitzero"`
	Since    time.Time `json:"since,omitzero"` // of the filter, as instants
	Until    time.Time `json:"until,omitzero"`
}

// Listing is the page as a document, with the instants of the filter that it was listed with.
func (p *Page) Listing(f *Filter) Listing {
	l := Listing{
		Jobs: p.Jobs, Next: p.Next, Seq: p.Seq, At: p.At, Stopped: p.Stopped, Looked: p.Looked, LookedTo: p.LookedTo,
		Since: f.From, Until: f.To,
	}
	if p.Total != Uncounted {
		l.Total = &p.Total
	}
	return l
}

// Page is the page that the document is of.
func (l *Listing) Page() *Page {
	p := &Page{
		Jobs: l.Jobs, Next: l.Next, Total: Uncounted, Seq: l.Seq, At: l.At, Stopped: l.Stopped, Looked: l.Looked, LookedTo: l.LookedTo,
	}
	if l.Total != nil {
		p.Total = *l.Total
	}
	return p
}
