package httpcall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/redact"
)

const (
	minDelay = time.Second // less than that would go round and round
	maxDelay = time.Hour   // the longest wait that a receiver may ask for
	maxQuote = 1000        // bytes of an answer in an error
)

// answer is what an answer means for the job.
func (c *Caller) answer(ctx context.Context, resp *http.Response) (any, error) {
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return c.result(ctx, resp)
	}
	said := fmt.Sprintf("%s answered %s", c.url.Host, status(code))
	if code >= 300 && code < 400 {
		return nil, errors.New(said + location(resp) + ": redirects are not followed")
	}
	said += quote(resp)
	delay, asked := retryAfter(resp)
	switch {
	case code == http.StatusGone:
		return nil, job.GiveUp(errors.New(said))
	case code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable:
		if asked {
			return nil, job.RetryAfter(delay, errors.New(said))
		}
		return nil, errors.New(said)
	case asked:
		return nil, job.Snooze(delay, said)
	}
	return nil, job.Refuse(job.CodeOverCapacity, said) // the wait is the first one of the retry policy
}

// result is the body of a 2xx: JSON as it is, other text as a string, nothing as no result.
func (c *Caller) result(ctx context.Context, resp *http.Response) (any, error) {
	most := c.cfg.MaxResponse
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	if len(body) > most {
		return nil, job.GiveUp(fmt.Errorf("%s answered %s, so the work may be done, but its result is refused: it has more than the %d bytes that are allowed",
			c.url.Host, status(resp.StatusCode), most))
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.New(cause.Error())
		}
		return nil, fmt.Errorf("%s answered %s, so the work may be done, but its result broke off: %w", c.url.Host, status(resp.StatusCode), err)
	}
	text := strings.TrimSpace(string(body))
	if text == "" {
		return nil, nil
	}
	if v := jsontext.Value(text); isJSON(resp) && v.IsValid() {
		return v, nil
	}
	return strings.ToValidUTF8(text, "\uFFFD"), nil
}

func mediaType(resp *http.Response) string {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

func isJSON(resp *http.Response) bool {
	t := mediaType(resp)
	return t == "application/json" || strings.HasSuffix(t, "+json")
}

// status is a status code in words; what the receiver calls it is not repeated.
func status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

// location names the host that a redirect leads to, and no more: the rest may hold secrets.
func location(resp *http.Response) string {
	to, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || to.Host == "" {
		return ""
	}
	return " (to " + to.Host + ")"
}

// quote is the beginning of what a receiver said, if it is for people to read.
func quote(resp *http.Response) string {
	t := mediaType(resp)
	if t == "text/html" {
		return " with an HTML page"
	}
	if !isJSON(resp) && t != "text/plain" {
		return ""
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 2*maxQuote))
	if err != nil {
		return "" // the status is known
	}
	// Secrets are looked for in more than is kept, so that none is cut in two and overlooked.
	text := redact.Text(strings.TrimSpace(strings.ToValidUTF8(string(body), "\uFFFD")))
	if text == "" {
		return ""
	}
	if len(text) > maxQuote {
		text = strings.ToValidUTF8(text[:maxQuote], "") + "…"
	}
	return ": " + text
}

// retryAfter is the wait that a receiver asks for, in seconds or as a date by its own clock.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	text := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if text == "" {
		return 0, false
	}
	var d time.Duration
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		d = time.Duration(min(n, uint64(maxDelay/time.Second))) * time.Second
	} else {
		at, err := http.ParseTime(text)
		if err != nil {
			return 0, false
		}
		now, err := http.ParseTime(resp.Header.Get("Date"))
		if err != nil {
			now = time.Now()
		}
		d = at.Sub(now)
	}
	return min(max(d, minDelay), maxDelay), true
}
