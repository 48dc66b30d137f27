package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestATraceIsTakenAsW3CWritesIt(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		parent,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03",
		"00-00000000000000000000000000000001-0000000000000001-01",
	} {
		require.Equal(t, Trace{Parent: p, State: "a=b"}, NewTrace(p, "a=b"), p)
	}
	for p, want := range map[string]string{ // later versions, and flags of no meaning
		"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":          parent,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what.not": parent,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fd":          parent,
	} {
		require.Equal(t, Trace{Parent: want}, NewTrace(p, ""), p)
	}
}

func TestWhatIsNoTraceIsNone(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		"", "00", "-", strings.Repeat("0", 55), strings.Repeat("-", 55), strings.Repeat("a", 1<<20),
		strings.ToUpper(parent), parent + "-00", parent + " ", " " + parent, parent[:54], parent + "\x00",
		"ff" + parent[2:], "0g" + parent[2:], "01" + parent[2:] + "x",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
		"00-0af7651916cd43dd8448eb211c80319é-b7ad6b7169203331-01",
		"00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
	} {
		require.Zero(t, NewTrace(p, "a=b"), "%.80q", p)
	}
}

func TestAStateThatIsNoneIsLeftOutAlone(t *testing.T) {
	t.Parallel()
	many := make([]string, 33)
	for i := range many {
		many[i] = fmt.Sprintf("k%d=v", i)
	}
	for _, s := range []string{
		"a=b", "a=b,c=d", "a=b , c=d", "a=b,,c=d", "1t@sys=x", "k*/_-=!~ x", strings.Join(many[:32], ","),
		"a=" + strings.Repeat("v", 256) + ",b=" + strings.Repeat("v", 251),
	} {
		require.Equal(t, Trace{Parent: parent, State: s}, NewTrace(parent, s), s)
	}
	for _, s := range []string{
		",", " ", "a", "a=", "=b", "A=b", "1a=b", "a=b=c", "a=b,a=c", "a=b\x00", "a=b\r\nNats-TTL: 1s", "a=é", "é=a", "a@=b",
		"@a=b", "a@1=b", "a@b@c=d", "a@" + strings.Repeat("s", 15) + "=b", strings.Repeat("k", 257) + "=v", strings.Join(many, ","),
		"a=" + strings.Repeat("v", 257),
		"a=" + strings.Repeat("v", 256) + ",b=" + strings.Repeat("v", 252), // 513 bytes
	} {
		require.Equal(t, Trace{Parent: parent}, NewTrace(parent, s), "%.80q", s)
	}
}

func TestATraceStandsInNoDocument(t *testing.T) {
	t.Parallel()
	s := Spec{Type: "t", Trace: NewTrace(parent, "a=b")}
	require.NoError(t, s.Normalize())
	j := s.Job()
	require.Equal(t, s.Trace, j.Trace)
	for _, v := range []any{s, j, *j} {
		b, err := Encode(v)
		require.NoError(t, err)
		require.NotContains(t, strings.ToLower(string(b)), "trace")
	}
	var back Job
	require.NoError(t, Decode([]byte(`{"type":"t","trace":{"parent":"x"},"Trace":1}`), &back))
	require.Zero(t, back.Trace)
	require.Contains(t, string(back.Extra), `"Trace":1`, "a member of that name is one that is not known")
}

func TestASpecIsNotRefusedForItsTrace(t *testing.T) {
	t.Parallel()
	s := Spec{Type: "t", Trace: Trace{Parent: "garbage\r\nNats-TTL: 1s", State: "a=b"}}
	require.NoError(t, s.Normalize())
	require.Zero(t, s.Trace)
	s.Trace = Trace{Parent: parent, State: strings.Repeat("x", 513)}
	require.NoError(t, s.Normalize())
	require.Equal(t, Trace{Parent: parent}, s.Trace)
}

func FuzzNewTrace(f *testing.F) {
	f.Add(parent, "a=b,1t@s=c")
	f.Add("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff-x", "")
	f.Fuzz(func(t *testing.T, p, s string) {
		got := NewTrace(p, s)
		if got != NewTrace(got.Parent, got.State) {
			t.Fatalf("%q %q: what was taken once is not taken again: %+v", p, s, got)
		}
		if strings.ContainsAny(got.Parent+got.State, "\r\n\x00") || len(got.State) > MaxTraceState {
			t.Fatalf("%+v is not fit for a header", got)
		}
		if got.Parent == "" && got.State != "" {
			t.Fatalf("a state without a parent: %+v", got)
		}
	})
}
