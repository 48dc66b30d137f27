//go:build !failpoints

package failpoint

// Enabled says whether this program listens.
const Enabled = false

// At is where something may happen. Its error, if any, is to be treated as that of what went before.
func At(string) error { return nil }

// Broken says whether a rule is to be broken.
func Broken(string) bool { return false }
