package httpapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokensAreFoundByWhatTheyAre(t *testing.T) {
	odd := []string{"a:b", "c,d", "e;f", "g h", "100%", "世界", "#"}
	line, err := HashToken("shop", secretAcme, odd)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte("# who may call\r\n\r\n"+line+"\r\n"+mustHash(t)+"\n"), 0o600))
	tokens, err := ReadTokens(path)
	require.NoError(t, err)
	c := tokens.find(secretAcme)
	require.Equal(t, "shop", c.name)
	for _, space := range odd {
		require.True(t, c.may(space), space)
	}
	require.False(t, c.may("default"))
	require.False(t, c.may(""))
	require.True(t, tokens.find(secretAll).may("anything"))
	require.Nil(t, tokens.find("somebody-else's-token-entirely"))
	require.Nil(t, tokens.find(""))
	require.NotContains(t, line, secretAcme)
}

func TestTokensThatAreRefused(t *testing.T) {
	hash := strings.Repeat("0f", 32)
	for _, text := range []string{
		"", "\n# nothing\n;", "x", "x:", "x:" + hash[2:], "x:" + hash + "00", "x:zz" + hash[2:], ":" + hash, "a b:" + hash,
		"x:" + hash + ":", "x:" + hash + ":a,,b", "x:" + hash + ":%zz", "x:" + hash + ":%ff", "x:" + hash + ":a:b",
		"x:" + hash + "::", "x:" + hash + ":a:", "x:" + hash + "::read,write", "x:" + hash + "::read:read", "x:" + hash + ":a,:read",
		"x:" + hash + ";x:" + strings.Repeat("1f", 32), "x:" + hash + ";y:" + hash,
	} {
		_, err := ParseTokens(text)
		require.Error(t, err, text)
	}
	_, err := ParseTokens("ops:" + secretAll)
	require.Error(t, err)
	require.NotContains(t, err.Error(), secretAll, "a token that stands there by mistake is not repeated")
	_, err = ParseTokens(secretAll)
	require.NotContains(t, err.Error(), secretAll)
	_, err = ReadTokens(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)

	for _, secret := range []string{"", "short", strings.Repeat("x", 19), "with a space in the middle of it", "with-é-in-the-middle-of-it"} {
		_, err := HashToken("x", secret, nil)
		require.Error(t, err, secret)
	}
	_, err = HashToken("", secretAll, nil)
	require.Error(t, err)
	_, err = HashToken("x", secretAll, []string{""})
	require.Error(t, err)
}

func TestATokensLineMaySayItsScopes(t *testing.T) {
	t.Parallel()
	reader, err := HashToken("reader", secretAll, nil, ScopeRead, ScopeKVRead)
	require.NoError(t, err)
	shop, err := HashToken("shop", secretAcme, []string{"acme"}, ScopeEnqueue)
	require.NoError(t, err)
	tokens, err := ParseTokens(reader + ";" + shop)
	require.NoError(t, err)
	c := tokens.find(secretAll)
	require.True(t, c.can(ScopeRead) && c.can(ScopeKVRead) && c.may("anything"))
	require.False(t, c.can(ScopeEnqueue) || c.can(ScopeAdmin))
	c = tokens.find(secretAcme)
	require.True(t, c.can(ScopeEnqueue) && c.may("acme"))
	require.False(t, c.can(ScopeRead) || c.may("other"))
	for _, scope := range Scopes() {
		require.True(t, testTokens(t).find(secretAll).can(scope), "a line without scopes has all of them")
	}
	_, err = HashToken("x", secretAll, nil, "write")
	require.ErrorContains(t, err, "kv-write")
	_, err = ParseTokens(strings.Replace(reader, "kv-read", secretAcme, 1))
	require.NotContains(t, err.Error(), secretAcme, "nothing that may be a token is repeated")
}

func FuzzParseTokens(f *testing.F) {
	f.Add("x:" + strings.Repeat("0f", 32) + ":a,b;#")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := ParseTokens(text)
		if err == nil {
			require.NotEmpty(t, tokens.list)
		}
	})
}
