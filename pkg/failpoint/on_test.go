//go:build failpoints && unix

package failpoint

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAFailpointHappensAtItsPassage(t *testing.T) {
	p, err := parse("before-settle=error#2,after-ack=error,after-claim=delay:1ms")
	require.NoError(t, err)
	require.NoError(t, p.at(BeforeSettle))
	require.ErrorIs(t, p.at(BeforeSettle), ErrInjected)
	require.NoError(t, p.at(BeforeSettle))
	require.ErrorIs(t, p.at(AfterAck), ErrInjected)
	require.ErrorIs(t, p.at(AfterAck), ErrInjected)
	require.NoError(t, p.at(AfterClaim))
	require.Equal(t, time.Millisecond, p.actions[AfterClaim].delay)
	require.NoError(t, p.at(AfterFire))
}

func TestAPlanThatIsMistyped(t *testing.T) {
	for _, text := range []string{"x", "before-settle", "before-settle=boom", "nowhere=kill", "after-ack=kill#0", "after-ack=kill#x", "after-ack=delay:x"} {
		_, err := parse(text)
		require.Error(t, err, text)
	}
}
