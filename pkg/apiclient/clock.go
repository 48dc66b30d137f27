package apiclient

import (
	"context"
	"net/http"
	"time"
)

// clockDoubt is how far the second in a Date header may be from the instant at which it is read, if the clocks agree.
const clockDoubt = 3 * time.Second

// clockTimeout bounds the question what time it is.
const clockTimeout = 5 * time.Second

// Now is the API's clock, as near as its answers tell: to a few seconds, or as this machine's where that is no further
// off. It asks if nothing was answered yet, and is this machine's clock where that fails too.
func (c *Client) Now() time.Time {
	if c.offset.Load() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), clockTimeout)
		defer cancel()
		_, _ = c.once(ctx, &call{method: http.MethodGet, path: "/healthz"}, newRequestID()) // what matters is when it was answered
	}
	now := time.Now()
	if d := c.offset.Load(); d != nil {
		now = now.Add(*d)
	}
	return now
}

// learnClock takes the time from an answer's Date header.
func (c *Client) learnClock(h http.Header) {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	offset := time.Until(date.Add(time.Second / 2)) // it stands for a whole second
	if offset.Abs() < clockDoubt {
		offset = 0
	}
	c.offset.Store(&offset)
}
