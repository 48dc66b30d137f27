package streams

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestNamesAreWrittenAsTokens(t *testing.T) {
	for name, token := range map[string]string{
		"default": "default", "a-b_C9": "a-b_C9", "a.b": "a=2Eb", "*": "=2A", ">": "=3E", " ": "=20", "=": "=3D",
		"=41": "=3D41", "é": "=C3=A9", "😀": "=F0=9F=98=80", "\x00": "=00", "\x7f": "=7F", "a/b:c@d": "a=2Fb=3Ac=40d", "$": "=24",
	} {
		require.Equal(t, token, escape(name))
		back, err := unescape(token)
		require.NoError(t, err)
		require.Equal(t, name, back)
	}
	for _, token := range []string{
		"", "=", "=4", "a=", "a=2", "=2e", "=41", "=2D", "=5F", "=GG", "=2G", "=FF", "=C3", ".", "a.b", "*", ">", " ", "é", "a\n", "=-ab", "==2E",
	} {
		_, err := unescape(token)
		require.Error(t, err, "%q", token)
	}
}

func TestTokensAreReversibleDistinctAndSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		ta, tb := escape(a), escape(b)
		if (a == b) != (ta == tb) {
			t.Fatalf("%q and %q are %q and %q", a, b, ta, tb)
		}
		for _, c := range []byte(ta) {
			if c <= ' ' || c >= 0x7f || c == '.' || c == '*' || c == '>' {
				t.Fatalf("%q has %q", ta, c)
			}
		}
		if a == "" {
			return
		}
		if back, err := unescape(ta); err != nil || back != a {
			t.Fatalf("%q came back as %q (%v)", a, back, err)
		}
		qa, qb := queueToken(a), queueToken(b)
		if (a == b) != (qa == qb) || len(qa) > maxQueueToken {
			t.Fatalf("queues %q and %q are %q and %q", a, b, qa, qb)
		}
	})
}

func FuzzUnescape(f *testing.F) {
	for _, s := range []string{"", "a", "=2E", "=41", "=-ab", "a=2", "=C3=A9", "=FF"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		name, err := unescape(token)
		if err != nil {
			return
		}
		if name == "" || !utf8.ValidString(name) {
			t.Fatalf("%q is %q", token, name)
		}
		if back := escape(name); back != token {
			t.Fatalf("%q and %q are both %q", token, back, name)
		}
	})
}

func TestLongQueuesAreHashed(t *testing.T) {
	fits, long := strings.Repeat("q", maxQueueToken), strings.Repeat("*", job.MaxName)
	require.Equal(t, fits, queueToken(fits))
	require.Equal(t, hashMark, queueToken(fits + "q")[:2])
	require.NotEqual(t, queueToken(long), queueToken(long[1:]))
	require.LessOrEqual(t, len(names{"jetcrew"}.readyConsumer(long)), 255)
}

func TestSubjectsAreTakenApart(t *testing.T) {
	n := names{"jetcrew"}
	long := job.Key{Queue: strings.Repeat("*", job.MaxName), Space: "s", ID: "1"}
	for _, k := range []job.Key{{Queue: "q", Space: "s", ID: "1"}, {Queue: "a.b", Space: "*", ID: ">"}, long} {
		for _, s := range states {
			sub, err := n.parse(n.job(s, tail(k)))
			require.NoError(t, err)
			require.Equal(t, s, sub.state)
			require.Equal(t, tail(k), sub.tail)
			want := k
			if k == long {
				want.Queue = "" // only a hash of it
			}
			require.Equal(t, want, sub.key)
		}
	}
	for _, s := range []string{
		"", "jetcrew", "jetcrew.job", "jetcrew.job.ready", "other.job.ready.q.s.1", "jetcrew.job.lost.q.s.1", "jetcrew.job.ready.q.s",
		"jetcrew.job.ready.q.s.1.2", "jetcrew.job.ready..s.1", "jetcrew.job.ready.q.s.", "jetcrew.job.ready.q.*.1", "jetcrew.job.ready.q.s.>",
		"jetcrew.job.ready.é.s.1", "jetcrew.job.ready.=41.s.1", "jetcrew.job.ready." + strings.Repeat("q", maxQueueToken+1) + ".s.1",
		"jetcrew.jobs.ready.q.s.1", "jetcrew.alarm.q.s.1",
	} {
		_, err := n.parse(s)
		require.Error(t, err, s)
	}
}
