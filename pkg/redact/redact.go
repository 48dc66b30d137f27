// Package redact takes secrets out of text that is to be logged or kept: passwords of URLs, what follows
// Authorization, Cookie or a name such as password, token or api_key, nkey seeds, JSON Web Tokens, signing
// secrets of webhooks, and values that the caller knows to be secret.
//
// It knows secrets by their surroundings or their shape. A secret that has neither passes: it is a net under
// programs that write what they should not, and no licence to do so.
package redact

import (
	"regexp"
	"slices"
	"strings"
)

// Mark stands where a secret stood.
const Mark = "[redacted]"

// minValue is how long a known value must be to be looked for: shorter ones stand in all kinds of text.
const minValue = 6

const secretName = `[\w.-]*(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|signing[_-]?key|credential)[\w.-]*`

var rules = []struct {
	find    *regexp.Regexp
	replace string
}{
	{regexp.MustCompile(`(://)[^\s/]+@`), "${1}" + Mark + "@"},
	{regexp.MustCompile(`(?i)\b((?:proxy-)?authorization["']?\s*[:=]\s*["']?)(?:(?:basic|bearer|digest|token)\s+)?[^\s"',;]+`), "${1}" + Mark},
	{regexp.MustCompile(`(?i)\b((?:basic|bearer)\s+)[\w.~+/=-]{8,}`), "${1}" + Mark},
	{regexp.MustCompile(`(?i)\b((?:set-)?cookie["']?\s*[:=]\s*["']?)[^\r\n"']+`), "${1}" + Mark},
	{regexp.MustCompile(`(?i)((?:^|[^\w.-])["']?` + secretName + `["']?\s*[:=]\s*)(?:"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"',;&}]+)`), "${1}" + Mark},
	{regexp.MustCompile(`\bS[ACNOUX][A-Z2-7]{56}\b`), Mark},
	{regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]*(?:\.[\w-]*)?`), Mark},
	{regexp.MustCompile(`\bwhsec_[A-Za-z0-9+/=_-]+`), Mark},
}

var secretNames = regexp.MustCompile(`(?i)password|passwd|passphrase|secret|token|key|credential|auth|dsn|url`)

// Text is s without what looks like a secret.
func Text(s string) string {
	for _, r := range rules {
		s = r.find.ReplaceAllString(s, r.replace)
	}
	return s
}

// Values answers a function that is Text and, before that, takes out the given values, wherever they stand.
// Values too short to be told from ordinary text are left.
func Values(values ...string) func(string) string {
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return len(v) < minValue })
	// The longest first: one may begin with another.
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(values))
	for _, v := range slices.Compact(values) {
		pairs = append(pairs, v, Mark)
	}
	known := strings.NewReplacer(pairs...)
	return func(s string) string { return Text(known.Replace(s)) }
}

// SecretName reports whether a variable of that name is likely to hold a secret.
func SecretName(name string) bool { return secretNames.MatchString(name) }
