package kvbucket

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/pkg/kv/kvtest"
)

// adapter is a bucket with what the contract's tests may use beside.
type adapter struct {
	*Bucket
	url string
}

// TooLarge implements kvtest.Limited.
func (adapter) TooLarge() int { return 1<<20 - headroom + 1 }

// rival is an adapter that has a second client. On several servers a client may be told late of what another one wrote, so
// the contract is for each alone.
type rival struct{ adapter }

// Client implements kvtest.Clients.
func (r rival) Client(t *testing.T) kv.Adapter { return open(t, r.url, r.cfg) }

func TestContractC_OnOneServer(t *testing.T) {
	t.Parallel()
	url := server(t)
	var n atomic.Int64
	kvtest.Run(t, func(t *testing.T) kv.Adapter {
		cfg := config()
		cfg.Namespace = "t" + strconv.FormatInt(n.Add(1), 10)
		return rival{adapter{open(t, url, cfg), url}}
	})
}

func TestContractC_OnThreeServers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes")
	}
	c := natstest.StartCluster(t, 3)
	for _, kill := range []bool{false, true} {
		name := map[bool]string{false: "undisturbed", true: "a leader killed in the middle"}[kill]
		t.Run(name, func(t *testing.T) {
			places := make(chan Config, 64) // made before, since none can be while a server is missing
			for i := range cap(places) {
				cfg := Config{Clock: wall{}, Replicas: 3, Namespace: fmt.Sprint("k", i, "-", kill)}
				open(t, c.URLs(), cfg).Close()
				places <- cfg
			}
			var wrote atomic.Int64 // by all tests
			defer killAfter(t, c, kill, &wrote)()
			t.Run("suite", func(t *testing.T) {
				kvtest.Run(t, func(t *testing.T) kv.Adapter {
					b := open(t, c.URLs(), <-places)
					t.Cleanup(func() { wrote.Add(int64(b.last.Load())) })
					return adapter{b, c.URLs()}
				})
			})
		})
	}
}

// killAfter kills a server, which leads a third of the buckets, when the suite is well under way; what it answers ends it.
func killAfter(t *testing.T, c *natstest.Cluster, kill bool, wrote *atomic.Int64) (end func()) {
	if !kill {
		return func() {}
	}
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		for wrote.Load() < 200 {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		c.Node(0).Kill()
	})
	return func() {
		close(stop)
		killer.Wait()
		require.False(t, c.Node(0).Running(), "the suite ended before a server was killed")
		c.Node(0).Restart(t)
	}
}
