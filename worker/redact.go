package worker

import (
	"regexp"
	"strings"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// urlPassword finds the password of a URL, which connection errors like to quote.
var urlPassword = regexp.MustCompile(`(://[^\s/:@]*):[^\s/]*@`)

// recordable is an error's text as it may be kept and logged: without secrets, and no longer than that.
func (c *Config) recordable(text string) string {
	text = redactURLs(text)
	if c.Redact != nil {
		text = c.Redact(text)
	}
	return job.CutError(text)
}

func redactURLs(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	return urlPassword.ReplaceAllString(text, "$1:redacted@")
}

// redacted is the text of one of our own errors, for the log.
func (c *Config) redacted(err error) string { return job.CutError(redactURLs(err.Error())) }
