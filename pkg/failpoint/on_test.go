//go:build failpoints && unix

package failpoint

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAFailpointHappensAtItsPassage(t *testing.T) {
	p, err := parse("before-settle=error#2,after-ack=error,after-claim=delay:1ms,before-ack=error%3")
	require.NoError(t, err)
	require.NoError(t, p.at(BeforeSettle))
	require.ErrorIs(t, p.at(BeforeSettle), ErrInjected)
	require.NoError(t, p.at(BeforeSettle))
	require.ErrorIs(t, p.at(AfterAck), ErrInjected)
	require.ErrorIs(t, p.at(AfterAck), ErrInjected)
	require.NoError(t, p.at(AfterClaim))
	require.Equal(t, time.Millisecond, p.actions[AfterClaim].delay)
	require.NoError(t, p.at(AfterFire))
	for i := range 9 {
		if err := p.at(BeforeAck); i%3 == 2 {
			require.ErrorIs(t, err, ErrInjected, i)
		} else {
			require.NoError(t, err, i)
		}
	}
}

func TestAPlanThatIsMistyped(t *testing.T) {
	for _, text := range []string{"x", "before-settle", "before-settle=boom", "nowhere=kill", "after-ack=kill#0", "after-ack=kill#x", "after-ack=kill%0", "after-ack=kill%", "after-ack=delay:x"} {
		_, err := parse(text)
		require.Error(t, err, text)
	}
}
