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
		"v/acme//x":      "v.acme.=.x",
		"v/acme/":        "v.acme.=",
		"a///b/c":        "a.=.=.b.c",
		"/a":             "=.a",
		"a//":            "a.=.=",
		"/":              "=.=",
		"///":            "=.=.=.=",
		"=/=":            "=3D.=3D",
		"/=2F/":          "=.=3D2F.=",
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
		"", "=", "a=", "a=4", "a=g0", "a=2f", "=41", "a=2Fb", "=2F", "a/b", "a..b", ".a", "a.", ".", "=.", ".=", "a b", "é",
		"=FF", "=C3", "a:b", "==", "=.==", "a.=b", "=a", "a=.b", "=.=2F",
		strings.Repeat("a", kv.MaxKey+1),
		"a" + strings.Repeat(".=", kv.MaxKey),
	} {
		_, ok := decode(name)
		require.False(t, ok, name)
	}
}

func TestTheLongestSubjectStaysBelow4KB(t *testing.T) {
	t.Parallel()
	name := bucketName(strings.Repeat("n", 32))
	for _, s := range []string{" ", "/", "a", " /", "/ ", "a/", "//a"} {
		key := strings.Repeat(s, kv.MaxKey)[:kv.MaxKey]
		require.LessOrEqual(t, len(encode(key)), 3*kv.MaxKey, "of %q", s)
		require.LessOrEqual(t, len(filter(key)), 3*kv.MaxKey, "of %q", s)
	}
	longest := encode(strings.Repeat(" ", kv.MaxKey))
	require.Len(t, longest, 3*kv.MaxKey)
	// The longest subjects are those of the API: a direct get, and the making of a consumer with a name of 8 bytes.
	for _, api := range []string{"DIRECT.GET.KV_" + name, "CONSUMER.CREATE.KV_" + name + ".12345678"} {
		require.Less(t, len(apiPrefix+api+".$KV."+name+"."+longest), 4096-512, "with room for a reply subject and sizes")
	}
}

func TestAFilterIsAsNarrowAsWholeTokensAllow(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"": ">", "v": ">", "v/": "v.>", "v/a": "v.>", "v/acme/": "v.acme.>", "v/acme/b": "v.acme.>", "v/acme/b/": "v.acme.b.>",
		"v/acme//": "v.acme.=.>", "v/acme//x": "v.acme.=.>", "/": "=.>", "//": "=.=.>", "/a": "=.>", "/a/b": "=.a.>", "a//b": "a.=.>",
		"a b/c": "a=20b.>", "a b": ">", "=/": "=3D.>",
	} {
		require.Equal(t, want, filter(prefix), prefix)
	}
}

// matches is how the server matches a filter that ends in > and has no other wildcard.
func matches(filter, name string) bool {
	return strings.HasPrefix(name, strings.TrimSuffix(filter, ">")) && len(name) > len(filter)-1
}

// All keys of up to four of the bytes that matter, each beside each.
func TestShortKeysDoNotMeet(t *testing.T) {
	t.Parallel()
	keys := []string{""}
	for from := 0; len(keys[from]) < 4; from++ {
		for _, c := range []string{"a", "/", "=", "."} {
			keys = append(keys, keys[from]+c)
		}
	}
	require.Len(t, keys, 341)
	names := map[string]string{}
	for _, key := range keys {
		name := encode(key)
		require.NotContains(t, names, name, "of %q", key)
		names[name] = key
		back, ok := decode(name)
		require.Equal(t, key != "", ok, name)
		require.Equal(t, key, back, name)
		for _, prefix := range keys {
			isPrefix(t, prefix, key)
		}
	}
	for _, name := range keys { // as names, of which few are any
		if key, ok := decode(name); ok {
			require.Equal(t, name, encode(key))
		}
	}
}

func FuzzCodec(f *testing.F) {
	for _, s := range []string{"v/acme/board", "a//b", "/", "é/ü", "a.b=c", "=2F", "a\x00", "//a//", "\xff", "=", "=/="} {
		for _, other := range []string{"a/b", "=.=", "a.=", "a=2Fb", "", "/", "a/", "v/acme/", "="} {
			f.Add(s, other)
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) > kv.MaxKey || len(b) > kv.MaxKey {
			return
		}
		name := encode(a)
		for _, token := range strings.Split(name, ".") {
			require.NotEmpty(t, token, "in %q", name)
		}
		require.LessOrEqual(t, len(name), max(1, 3*len(a)))
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
		isPrefix(t, a, a+b)
		isPrefix(t, a, b)
		for i := range a { // every prefix that is text
			isPrefix(t, a[:i], a)
			isPrefix(t, a[:i], b)
			isPrefix(t, a[:i]+"/", a)
		}
	})
}

// isPrefix holds that a filter misses no key with a prefix, and, where the prefix ends with a segment, takes no other.
func isPrefix(t *testing.T, prefix, key string) {
	t.Helper()
	has, takes := strings.HasPrefix(key, prefix), matches(filter(prefix), encode(key))
	require.True(t, takes || !has, "%q of %q misses %q", filter(prefix), prefix, key)
	if prefix == "" || strings.HasSuffix(prefix, "/") {
		require.Equal(t, has, takes, "%q of %q takes %q", filter(prefix), prefix, key)
	}
}
