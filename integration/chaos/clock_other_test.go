//go:build !linux

package chaos

import "time"

// monotonic is the wall clock where there is no other that processes share.
func monotonic() time.Duration { return time.Duration(time.Now().UnixNano()) }
