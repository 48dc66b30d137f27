package kvbucket

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestKeysStayReadable(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"v/acme/board":   "v.acme.board",
		"Board":          "Board",
		"board ":         "board=20",
		"a.b":            "a=2Eb",
		"a=b":            "a=3Db",
		"a//b":           "a=2F=2Fb",
		"a///b/c":        "a=2F=2F=2Fb.c",
		"/a":             "=2Fa",
		"a/":             "a=2F",
		"a/b/":           "a.b=2F",
		"/":              "=2F",
		"a/./b":          "a.=2E.b",
		"user:1@x.org":   "user=3A1=40x=2Eorg",
		"é":              "=C3=A9",
		"a\x00*>$\r\n":   "a=00=2A=3E=24=0D=0A",
		"x_-9Z":          "x_-9Z",
		"v/a=2Fb/c d/=2": "v.a=3D2Fb.c=20d.=3D2",
	} {
		require.Equal(t, want, encode(key))
		back, ok := decode(want)
		require.True(t, ok, want)
		require.Equal(t, key, back)
	}
}

func TestWhatIsNoKeyOfOursIsNotTaken(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "=", "a=", "a=4", "a=g0", "a=2f", "=41", "a=2Fb", "a/b", "a..b", ".a", "a.", "a b", "é", "=FF", "=C3", "a:b",
		strings.Repeat("a", kv.MaxKey+1),
	} {
		_, ok := decode(name)
		require.False(t, ok, name)
	}
}

func TestTheLongestSubjectStaysBelow4KB(t *testing.T) {
	t.Parallel()
	ns := strings.Repeat("n", 32)
	name := bucketName(ns)
	subject := "$JS.API.DIRECT.GET.KV_" + name + ".$KV." + name + "." + encode(strings.Repeat(" ", kv.MaxKey))
	require.Less(t, len(subject), 4096-512, "with room for a reply subject and sizes")
}

func TestAFilterIsAsNarrowAsWholeTokensAllow(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"": ">", "v": ">", "v/": ">", "v/a": "v.>", "v/acme/": "v.>", "v/acme/b": "v.acme.>", "v/acme/b/": "v.acme.>",
		"v/acme//": "v.>", "/": ">", "//": ">", "/a": ">", "/a/b": "=2Fa.>", "a//b": ">", "a//b/c": "a=2F=2Fb.>", "a b/c": "a=20b.>",
	} {
		require.Equal(t, want, filter(prefix), prefix)
	}
}

// matches is how the server matches a filter that ends in > and has no other wildcard.
func matches(filter, name string) bool {
	return strings.HasPrefix(name, strings.TrimSuffix(filter, ">")) && len(name) > len(filter)-1
}

func FuzzCodec(f *testing.F) {
	for _, s := range []string{"v/acme/board", "a//b", "/", "é/ü", "a.b=c", "=2F", "a\x00", "//a//", "\xff"} {
		for _, other := range []string{"a/b", "=2F=2F", "a=2Fb", ""} {
			f.Add(s, other)
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) > kv.MaxKey || len(b) > kv.MaxKey {
			return
		}
		name := encode(a)
		for _, token := range strings.Split(name, ".") {
			require.True(t, token != "" || a == "", "an empty token in %q", name)
		}
		for i := range len(name) {
			require.True(t, plain(name[i]) || name[i] == '.' || name[i] == '=', "%q", name)
		}
		back, ok := decode(name)
		require.Equal(t, kv.CheckKey(a) == nil, ok)
		if ok {
			require.Equal(t, a, back)
		}
		require.Equal(t, a == b, name == encode(b), "%q and %q", a, b)
		if key, ok := decode(b); ok {
			require.Equal(t, b, encode(key), "one name for a key")
			require.True(t, utf8.ValidString(key))
		}
		if a+b != "" {
			require.True(t, matches(filter(a), encode(a+b)), "%q of %q", filter(a), a+b)
		}
		for i := range a { // every prefix that is text
			require.True(t, matches(filter(a[:i]), name), "%q of %q", filter(a[:i]), a)
		}
	})
}
