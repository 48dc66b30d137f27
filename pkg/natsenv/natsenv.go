// Package natsenv says what every part of jetcrew asks of its NATS server: how old it may be at most, and what a
// namespace on it may be called. It does no I/O.
package natsenv

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MinServer is the oldest server that has all that jetcrew's streams and buckets are configured with.
const MinServer = "2.14.0"

// NewEnough compares a server's version ("2.15.2", "2.15.0-RC.1") with MinServer.
func NewEnough(v string) bool { return slices.Compare(parts(v), parts(MinServer)) >= 0 }

func parts(v string) []int {
	v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "-")
	parts := make([]int, 3)
	for i, p := range strings.SplitN(v, ".", 3) {
		n, err := strconv.Atoi(p)
		if err != nil {
			return []int{0, 0, 0} // no version that we know how to read is an old one
		}
		parts[i] = n
	}
	return parts
}

// NamespaceRule is what ValidNamespace takes, for whoever is told that theirs is not valid.
const NamespaceRule = "a lower-case letter, then up to 31 of a-z 0-9 _ -"

var namespace = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// ValidNamespace reports whether s can begin the names of subjects, streams and buckets.
func ValidNamespace(s string) bool { return namespace.MatchString(s) }
