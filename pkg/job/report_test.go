package job

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLogKeepsTheNewestLines(t *testing.T) {
	var j Job
	at := time.UnixMilli(1_700_000_000_123).UTC()
	for i := range 3 * MaxLogLines {
		j.AddLog(fmt.Sprintf("line %d", i), at)
	}
	require.Len(t, j.Log, MaxLogLines)
	require.Equal(t, "line 100", j.Log[0].Text)
	require.Equal(t, "line 149", j.Log[MaxLogLines-1].Text)

	j.AddLog("one\ntwo\r\n\nfour", at)
	var last []string
	for _, l := range j.Log[MaxLogLines-4:] {
		last = append(last, l.Text)
	}
	require.Equal(t, []string{"one", "two", "", "four"}, last)

	j.AddLog(strings.Repeat("x\n", 1000), at)
	require.Len(t, j.Log, MaxLogLines)
	j.AddLog(strings.Repeat("é", MaxLogLine), at)
	require.LessOrEqual(t, len(j.Log[MaxLogLines-1].Text), MaxLogLine)
}

func TestAddLogDoesNotWriteIntoACopy(t *testing.T) {
	j := Job{Log: make([]LogLine, 1, 10)}
	c := j
	j.AddLog("mine", time.Now())
	c.AddLog("yours", time.Now())
	require.Equal(t, "mine", j.Log[1].Text)
	require.Equal(t, "yours", c.Log[1].Text)
}

func TestProgressIsAlwaysANumber(t *testing.T) {
	var j Job
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		j.SetProgress(f, "pages", time.Now())
		_, err := Encode(j)
		require.NoError(t, err)
	}
	j.SetProgress(40.5, "pages", time.Now())
	require.InDelta(t, 40.5, j.Progress.Done, 0)
}

func TestReportsOutsideOfAJobDoNothing(t *testing.T) {
	Progress(t.Context(), 1, "x")
	Logf(t.Context(), "x")
}
