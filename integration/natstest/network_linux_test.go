package natstest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHostsAreCutOffFromEachOther(t *testing.T) {
	t.Parallel()
	network := StartNetwork(t, 1)
	host := network.Host(0)
	server := StartServer(t, ServerConfig{Host: host.addr, Within: []string{"ip", "netns", "exec", host.name}})
	reach := func(d time.Duration) error {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", host.addr, server.port), d)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	require.NoError(t, reach(patience))
	for name, cut := range map[string]func(){
		"both ways":     func() { network.Cut(host, network.Outside()) },
		"to the host":   func() { network.Mute(network.Outside(), host) },
		"from the host": func() { network.Mute(host, network.Outside()) },
		"from all":      func() { network.Isolate(host) },
	} {
		cut()
		var failed net.Error
		require.ErrorAs(t, reach(200*time.Millisecond), &failed, name)
		require.True(t, failed.Timeout(), "%s: %v", name, failed)
		network.Heal()
		require.NoError(t, reach(patience), name)
	}
	network.Isolate(host, network.Outside())
	require.NoError(t, reach(patience), "who is excepted")
}

func TestPowerCutKeepsWhatWasSynced(t *testing.T) {
	t.Parallel()
	disk := Disk(t, 16)
	write := func(name string) {
		require.NoError(t, os.WriteFile(filepath.Join(disk.Dir(), name), []byte(name), 0o600))
	}
	write("synced")
	disk.Sync()
	write("not synced")
	after := disk.AfterPowerCut()
	require.FileExists(t, filepath.Join(after.Dir(), "synced"))
	require.NoFileExists(t, filepath.Join(after.Dir(), "not synced"))
}

func TestMemoryIsFull(t *testing.T) {
	t.Parallel()
	m := Memory(t, 1)
	write := func() error { return os.WriteFile(filepath.Join(m.Dir(), "file"), make([]byte, 2<<20), 0o600) }
	require.ErrorContains(t, write(), "no space left")
	m.Resize(4)
	require.NoError(t, write())
}

func TestLeftoversAreKnownByTheirName(t *testing.T) {
	t.Parallel()
	require.False(t, orphaned(kernelName()), "of this process")
	require.True(t, orphaned("jct4194399x1"), "of a process that cannot be") // above the largest id that there is
	require.False(t, orphaned("eth0"))
}
