package natstest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Mount is a file system of a test's own. It takes root on Linux and the programs of its kind.
type Mount struct {
	t      testing.TB
	dir    string
	image  string // the file that stands for a disk; "" without one
	device string // the loop device of the image
	copies []*Mount
}

// Dir is where it is mounted.
func (m *Mount) Dir() string { return m.dir }

// Memory mounts a file system of so many megabytes, which is unmounted when the test ends. Where that is not possible
// the test is skipped.
func Memory(t testing.TB, megabytes int) *Mount {
	t.Helper()
	m := newMount(t)
	if _, err := command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", megabytes), kernelMount, m.dir); err != nil {
		m.skip("no file system can be mounted", err)
	}
	t.Cleanup(m.unmount)
	return m
}

// Resize changes what a file system in memory may hold.
func (m *Mount) Resize(megabytes int) {
	m.t.Helper()
	must(m.t, "mount", "-o", fmt.Sprintf("remount,size=%dm", megabytes), m.dir)
}

// Disk mounts a disk of so many megabytes: a file with an ext4 on it. It is taken away when the test ends. Where that
// is not possible the test is skipped.
func Disk(t testing.TB, megabytes int) *Mount {
	t.Helper()
	m := newMount(t)
	m.image = filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(m.image, nil, 0o600); err != nil {
		t.Fatalf("natstest: %v", err)
	}
	if err := os.Truncate(m.image, int64(megabytes)<<20); err != nil {
		t.Fatalf("natstest: %v", err)
	}
	// What is left for later here would be written in the middle of the test.
	if _, err := command("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", m.image); err != nil {
		m.skip("no file system can be made", err)
	}
	m.attach()
	t.Cleanup(m.unmount)
	return m
}

// AfterPowerCut mounts a copy of a disk as it is at this instant: what was written and not synced is in no such copy,
// except for what the kernel happens to have written out. Whoever writes has to be stopped meanwhile. The copy goes with
// the disk, so that a server may move there.
func (m *Mount) AfterPowerCut() *Mount {
	m.t.Helper()
	after := newMount(m.t)
	after.image = filepath.Join(m.t.TempDir(), "disk")
	must(m.t, "cp", "--sparse=always", m.image, after.image)
	after.attach()
	m.copies = append(m.copies, after)
	return after
}

// Sync writes out what the file system holds back.
func (m *Mount) Sync() {
	m.t.Helper()
	must(m.t, "sync", "-f", m.dir)
}

// writeLimits is where the kernel is told how many writes a second a device may take.
const writeLimits = "/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device"

// Slow lets a disk take only so many writes a second. Where that is not possible the test is skipped.
func (m *Mount) Slow(writes int) {
	m.t.Helper()
	info, err := os.Stat(m.device)
	if err != nil {
		m.t.Fatalf("natstest: %v", err)
	}
	rdev := info.Sys().(*syscall.Stat_t).Rdev
	number := fmt.Sprintf("%d:%d", rdev>>8&0xfff, rdev&0xff|rdev>>12&0xfff00)
	if err := os.WriteFile(writeLimits, fmt.Appendf(nil, "%s %d", number, writes), 0); err != nil {
		m.t.Skipf("no disk can be slowed down: %v", err)
	}
	m.t.Cleanup(func() {
		if err := os.WriteFile(writeLimits, []byte(number+" 0"), 0); err != nil {
			m.t.Errorf("natstest: %v", err)
		}
	})
}

// Fast ends what Slow began.
func (m *Mount) Fast() { m.t.Helper(); m.Slow(0) }

// kernelMount is the device's name that a file system in memory is given.
const kernelMount = "jetcrew-test"

// mountsAt is where file systems are mounted: not in a test's own directory, which must be empty of them when it is removed.
var mountsAt = filepath.Join(os.TempDir(), "jetcrew-mounts")

func newMount(t testing.TB) *Mount {
	t.Helper()
	m := &Mount{t: t, dir: filepath.Join(mountsAt, kernelName())}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		t.Fatalf("natstest: %v", err)
	}
	return m
}

func (m *Mount) skip(why string, err error) {
	m.t.Helper()
	_ = os.Remove(m.dir) // nothing was mounted there
	m.t.Skipf("%s: %v", why, err)
}

// attach mounts the image. The device is to be let go of when it is unmounted, so that nothing is left of it.
func (m *Mount) attach() {
	m.t.Helper()
	if _, err := command("mount", "-o", "loop", m.image, m.dir); err != nil {
		m.skip("no disk can be mounted", err)
	}
	m.device = deviceOf(m.dir)
}

func (m *Mount) unmount() {
	for _, c := range m.copies {
		c.unmount()
	}
	// A process that was killed may hold it for a moment longer.
	if err := poll(patience/4, func() error { _, err := command("umount", m.dir); return err }); err != nil {
		m.t.Errorf("natstest: %v", err)
		return
	}
	if err := os.Remove(m.dir); err != nil {
		m.t.Errorf("natstest: %v", err)
	}
}

// deviceOf is the device that is mounted on a directory.
func deviceOf(dir string) string {
	for _, m := range mounts() {
		if m[1] == dir {
			return m[0]
		}
	}
	return ""
}

// mounts are all devices and where they are mounted.
func mounts() [][2]string {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	var out [][2]string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 {
			out = append(out, [2]string{f[0], f[1]})
		}
	}
	return out
}

func tidyMounts() {
	for _, m := range mounts() {
		if filepath.Dir(m[1]) == mountsAt && orphaned(filepath.Base(m[1])) {
			_, _ = command("umount", "-l", m[1])
		}
	}
	left, err := os.ReadDir(mountsAt)
	if err != nil {
		return
	}
	for _, d := range left {
		if orphaned(d.Name()) {
			_ = os.Remove(filepath.Join(mountsAt, d.Name()))
		}
	}
}
