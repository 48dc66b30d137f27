package guard_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	roleHolder = "holder"
	urlEnv     = "GUARD_TEST_URL"
)

// holdUntilKilled is a process that begins a run and never ends it.
func holdUntilKilled() int {
	fail := func(err error) int {
		fmt.Println(err)
		return 1
	}
	nc, err := nats.Connect(os.Getenv(urlEnv))
	if err != nil {
		return fail(err)
	}
	ctx := context.Background()
	b, err := kvbucket.Open(ctx, nc, kvbucket.Config{Clock: wall{}})
	if err != nil {
		return fail(err)
	}
	g, err := guard.New(guard.Config{Store: b})
	if err != nil {
		return fail(err)
	}
	key, err := guard.Derived("acme", "pay", "ada", nil)
	if err != nil {
		return fail(err)
	}
	q := request(key)
	q.Timeout, q.RunID = long, "held"
	if _, err := g.Begin(ctx, q); err != nil {
		return fail(err)
	}
	fmt.Println("holds")
	select {}
}

// ahead is the store's clock as it will be.
type ahead struct{ by atomic.Int64 }

func (a *ahead) Now() time.Time { return time.Now().Add(time.Duration(a.by.Load())) }

func TestContractE1_AHolderThatIsKilledFreesItsKeyByItsTimeout(t *testing.T) {
	t.Parallel()
	url := natstest.Embedded(t).URL()
	holder := natstest.StartRole(t, roleHolder, urlEnv+"="+url)
	select {
	case line := <-holder.Lines():
		require.Equal(t, "holds", line)
	case <-time.After(soon):
		require.FailNow(t, "the holder says nothing")
	}
	holder.Kill()

	clock := &ahead{}
	b, err := kvbucket.Open(t.Context(), natstest.Connect(t, url), kvbucket.Config{Clock: clock})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	g := guards(t, b)
	q := request(derived(t, `{}`))
	refused(t, g, q, job.CodeDuplicate)
	clock.by.Store(int64(long / 2))
	refused(t, g, q, job.CodeDuplicate) // it might be alive
	clock.by.Store(int64(long + time.Second))
	free(t, g, q)
	ok, err := g.Cancel(t.Context(), "acme", "ada", "held")
	require.NoError(t, err)
	require.False(t, ok, "it is known no more")
}

func TestContractE1_AHolderThatIsCutOffStopsBeforeTheNextOneBegins(t *testing.T) {
	t.Parallel()
	url := natstest.Embedded(t).URL()
	d := &natstest.FaultDialer{}
	here, there := guards(t, open(t, url, d.Option())), guards(t, open(t, url))
	q := request(derived(t, `{}`))
	q.Timeout = 2 * time.Second
	r := begin(t, here, q)
	deadline, ok := r.Context().Deadline()
	require.True(t, ok)
	d.BlackholeFromServer()
	d.BlackholeToServer()

	var next *guard.Run
	natstest.Eventually(t, soon, func() (err error) {
		next, err = there.Begin(t.Context(), request(derived(t, `{}`)))
		return err
	})
	require.True(t, deadline.Before(time.Now()))
	require.ErrorIs(t, ends(t, r), job.ErrTimeout)
	require.ErrorIs(t, r.End(), guard.ErrNotReleased, "it cannot know that the key is another's by now")
	require.Empty(t, here.Active())
	d.Heal()
	refused(t, there, q, job.CodeDuplicate)
	require.NoError(t, next.End())
}

func TestAnswersThatAreLostOnTheWayAreFoundOut(t *testing.T) {
	t.Parallel()
	url := natstest.Embedded(t).URL()
	d := &natstest.FaultDialer{}
	b := open(t, url)
	here, there := guards(t, open(t, url, d.Option())), guards(t, b)
	q := request(derived(t, `{}`))
	d.DropFromServer(1, natstest.IsPubAck)
	r := begin(t, here, q)
	refused(t, there, q, job.CodeDuplicate)
	d.DropFromServer(1, natstest.IsPubAck)
	require.NoError(t, r.End())
	from, _ := d.Dropped()
	require.Equal(t, 2, from)
	free(t, there, q)
	require.Empty(t, left(t, b))
}
