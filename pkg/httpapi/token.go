package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// minToken is how many bytes a token has at least. Hashes of tokens are plain SHA-256, so a token has to be too
// long to be guessed: 32 random bytes, not a password.
const minToken = 20

// Tokens are the bearer tokens that may call, each known by its hash.
type Tokens struct{ list []token }

type token struct {
	name   string
	hash   [sha256.Size]byte
	spaces []string // none: all of them
	scopes []Scope  // none: all of them
}

// caller is who makes a request.
type caller struct {
	name   string
	spaces []string // none: all of them
	scopes []Scope  // nil: all of them
}

// may reports whether the caller has to do with a space.
func (c *caller) may(space string) bool {
	return len(c.spaces) == 0 || slices.Contains(c.spaces, space)
}

// ParseTokens reads tokens, one a line or separated by semicolons: name:sha256-hex[:space,space[:scope,scope]]. In a
// space's name every byte can be written as %XX, and a comma, colon, semicolon or per cent sign has to be. Without spaces,
// also where nothing stands before the scopes, it is all of them, and without scopes all of these. Empty lines and lines
// that begin with # say nothing. No tokens at all is an error: what was meant to be closed must not be open.
func ParseTokens(text string) (*Tokens, error) {
	t := &Tokens{}
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, err := parseToken(line)
		if err != nil {
			return nil, fmt.Errorf("token %d: %w", len(t.list)+1, err)
		}
		for _, other := range t.list {
			if other.name == one.name || other.hash == one.hash {
				return nil, fmt.Errorf("token %d: %q is there already, by its name or its hash", len(t.list)+1, one.name)
			}
		}
		t.list = append(t.list, one)
	}
	if len(t.list) == 0 {
		return nil, errors.New("there are no tokens in it")
	}
	return t, nil
}

// ReadTokens reads a file of tokens; see ParseTokens.
func ReadTokens(path string) (*Tokens, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := ParseTokens(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// parseToken never repeats in an error what may be a token that was written down by mistake.
func parseToken(line string) (token, error) {
	parts := strings.Split(line, ":")
	if len(parts) < 2 || len(parts) > 4 {
		return token{}, errors.New("want name:sha256-hex[:space,space[:scope,scope]]")
	}
	t := token{name: strings.TrimSpace(parts[0])}
	if err := checkTokenName(t.name); err != nil {
		return token{}, err
	}
	hash, err := hex.DecodeString(strings.TrimSpace(parts[1]))
	if err != nil || len(hash) != sha256.Size {
		return token{}, fmt.Errorf("%q: want the SHA-256 of the token in %d hexadecimal digits", t.name, 2*sha256.Size)
	}
	t.hash = [sha256.Size]byte(hash)
	if len(parts) > 3 {
		if t.scopes, err = parseScopes(parts[3]); err != nil {
			return token{}, fmt.Errorf("%q: %w", t.name, err)
		}
	}
	if len(parts) < 3 || len(parts) > 3 && strings.TrimSpace(parts[2]) == "" {
		return t, nil
	}
	for s := range strings.SplitSeq(parts[2], ",") {
		space, err := url.PathUnescape(strings.TrimSpace(s))
		if err == nil {
			err = job.ValidateName("space", space, job.MaxName)
		}
		if err != nil {
			return token{}, fmt.Errorf("%q: %w", t.name, err)
		}
		t.spaces = append(t.spaces, space)
	}
	return t, nil
}

// parseScopes reads scopes, separated by commas.
func parseScopes(text string) ([]Scope, error) {
	var out []Scope
	for s := range strings.SplitSeq(text, ",") {
		scope := Scope(strings.TrimSpace(s))
		if !slices.Contains(Scopes(), scope) {
			return nil, fmt.Errorf("a scope is one of %s", scopeNames())
		}
		out = append(out, scope)
	}
	return out, nil
}

func checkTokenName(name string) error {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.@", r)
	}
	if name == "" || len(name) > job.MaxShortName || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return fmt.Errorf("a token's name is 1 to %d letters, digits, - _ . and @", job.MaxShortName)
	}
	return nil
}

// HashToken is the line by which a token is known; see ParseTokens. Without spaces it is good for all of them, and without
// scopes for all that can be done.
func HashToken(name, secret string, spaces []string, scopes ...Scope) (string, error) {
	if err := checkTokenName(name); err != nil {
		return "", err
	}
	if len(secret) < minToken {
		return "", fmt.Errorf("the token has %d bytes, want at least %d that cannot be guessed", len(secret), minToken)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("the token has to be of printable ASCII without spaces: it goes into a header")
	}
	sum := sha256.Sum256([]byte(secret))
	line := name + ":" + hex.EncodeToString(sum[:])
	separator := ":"
	for _, s := range spaces {
		if err := job.ValidateName("space", s, job.MaxName); err != nil {
			return "", err
		}
		line += separator + strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
		separator = ","
	}
	if len(scopes) == 0 {
		return line, nil
	}
	if len(spaces) == 0 {
		line += ":"
	}
	separator = ":"
	for _, s := range scopes {
		if !slices.Contains(Scopes(), s) {
			return "", fmt.Errorf("%q is no scope: there are %s", cut(string(s)), scopeNames())
		}
		line += separator + string(s)
		separator = ","
	}
	return line, nil
}

// find answers whose token it is; nil if nobody's. It compares with all of them, each in constant time.
func (t *Tokens) find(secret string) *caller {
	if t == nil {
		return nil
	}
	sum := sha256.Sum256([]byte(secret))
	var found *caller
	for i := range t.list {
		if subtle.ConstantTimeCompare(sum[:], t.list[i].hash[:]) == 1 {
			found = &caller{name: t.list[i].name, spaces: t.list[i].spaces, scopes: t.list[i].scopes}
		}
	}
	return found
}

// has reports whether there is a token of that name.
func (t *Tokens) has(name string) bool {
	return t != nil && slices.ContainsFunc(t.list, func(one token) bool { return one.name == name })
}
