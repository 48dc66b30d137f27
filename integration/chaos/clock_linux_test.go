package chaos

import (
	"syscall"
	"time"
	"unsafe"
)

// monotonic is the kernel's monotonic clock: the same in every process on this
// machine, and untouched by steps of the wall clock.
func monotonic() time.Duration {
	const clockMonotonic = 1
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(ts.Nano())
}
