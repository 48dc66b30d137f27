package kvbucket

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsKnownToBePastIsNotBelieved(t *testing.T) {
	t.Parallel()
	var r recent
	require.False(t, r.past("k", 0))
	require.False(t, r.past("k", 7))
	r.learn("k", 5)
	require.True(t, r.past("k", 0), "a replica that has not got it yet")
	require.True(t, r.past("k", 4))
	require.False(t, r.past("k", 5))
	require.False(t, r.past("k", 6))
	r.learn("k", 3) // late news
	require.True(t, r.past("k", 4))
	r.vanished("k") // it lapsed, says the leader
	require.False(t, r.past("k", 0))
	require.True(t, r.past("k", 5), "a replica that has not removed it yet")
	require.False(t, r.past("k", 6))
	r.learn("k", 9)
	require.True(t, r.past("k", 0))
	r.vanished("other")
	require.False(t, r.past("other", 1), "nothing was known of it")
}

func TestOnlySoManyRevisionsAreKept(t *testing.T) {
	t.Parallel()
	var r recent
	for i := range uint64(2 * recentKeys) {
		r.learn(strconv.FormatUint(i, 10), i+1)
		r.learn("0", i+1) // again, while it is known
	}
	require.LessOrEqual(t, len(r.known), recentKeys)
	require.True(t, r.past(strconv.Itoa(2*recentKeys-1), 1))
	require.False(t, r.past("1", 1))
}
