package worker

import (
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/redact"
)

// recordable is an error's text as it may be kept and logged: without secrets, and no longer than that.
func (c *Config) recordable(text string) string {
	text = redact.Text(text)
	if c.Redact != nil {
		text = c.Redact(text)
	}
	return job.CutError(text)
}

// redacted is the text of one of our own errors, for the log.
func (c *Config) redacted(err error) string { return job.CutError(redact.Text(err.Error())) }
