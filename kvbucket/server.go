package kvbucket

import (
	"slices"
	"strconv"
	"strings"
)

// minServer is the oldest server that jetcrew is made for.
const minServer = "2.14.0"

// newEnough compares a server's version ("2.15.2", "2.15.0-RC.1") with minServer.
func newEnough(v string) bool {
	return slices.Compare(versionParts(v), versionParts(minServer)) >= 0
}

func versionParts(v string) []int {
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
