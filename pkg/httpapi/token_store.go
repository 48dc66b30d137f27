package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Errors of stored tokens.
var (
	// ErrTokenExists: a token of that name is stored, and good.
	ErrTokenExists = errors.New("there is a token of that name")
	// ErrNoToken: no token of that name is stored.
	ErrNoToken = errors.New("there is no token of that name")
	// ErrManyTokens: no more tokens can be stored.
	ErrManyTokens = fmt.Errorf("there are %d tokens, and no more can be stored: revoke some", maxStored)
)

const (
	// maxStored is how many good tokens may be stored: all of them are one value, which each API reads.
	maxStored = 500
	// maxTokenSpaces is how many spaces a stored token may name.
	maxTokenSpaces = 50
	// maxTokenLife is the longest lifetime that a token may be given.
	maxTokenLife = 3650 * 24 * time.Hour
	// keepEnded is how long a token that was revoked, or has expired, is still listed, if there is room.
	keepEnded = 30 * 24 * time.Hour
	// tokensFor is how long what was read of the tokens is taken as it was, so that a token that is new or revoked is
	// seen after it at the latest.
	tokensFor = time.Second
	// tokensStale is how long a token that was good is taken for good while the store cannot be read.
	tokensStale = time.Minute
	// tokensTimeout bounds one reading of the tokens.
	tokensTimeout = 2 * time.Second
)

// TokenSpec asks for a stored token.
type TokenSpec struct {
	Name    string        // 1 to 64 letters, digits, - _ . and @
	Scopes  []Scope       // one at least
	Spaces  []string      // none: all of them
	Expires time.Duration // how long it is good for; 0: until it is revoked
}

// Token is a stored token, as everybody may see it.
type Token struct {
	Name       string    `json:"name"`
	Scopes     []Scope   `json:"scopes"`
	Spaces     []string  `json:"spaces,omitzero" doc:"The spaces that it is good for; left out: all."`
	CreatedAt  time.Time `json:"createdAt"`
	ExpiresAt  time.Time `json:"expiresAt,omitzero" doc:"Left out: it is good until it is revoked."`
	RevokedAt  time.Time `json:"revokedAt,omitzero"`
	LastUsedAt time.Time `json:"lastUsedAt,omitzero" doc:"To a few minutes."`
}

// storedToken is a token as it is stored.
type storedToken struct {
	Token
	Hash string `json:"sha256"`
}

// tokenDoc is all stored tokens. Where it is there the API is closed, even if no token is left in it.
type tokenDoc struct {
	Tokens []storedToken `json:"tokens"`
}

// storedTokens is what was read of the store's tokens last.
type storedTokens struct {
	mu     sync.Mutex
	doc    *tokenDoc // nil: there is none
	read   time.Time // when doc was read; zero: never
	failed time.Time // when the reading failed last, if it did not succeed since
	err    error
	closed bool // a token was stored once; it is never false again
}

func (a *Access) tokenSpace() *kv.Space { return a.store.Space("tokens") }

const (
	tokenKey = "all"
	usedKey  = "used"
)

// good reports whether the token may call.
func (t *Token) good(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// endedBefore reports whether the token was no longer good at an instant.
func (t *Token) endedBefore(at time.Time) bool {
	return !t.RevokedAt.IsZero() && t.RevokedAt.Before(at) || !t.ExpiresAt.IsZero() && t.ExpiresAt.Before(at)
}

// check refuses what no token can be, with a *job.FieldError.
func (s *TokenSpec) check() error {
	field := func(name, format string, args ...any) error {
		return &job.FieldError{Field: name, Reason: fmt.Sprintf(format, args...)}
	}
	if checkTokenName(s.Name) != nil {
		return field("name", "must be 1 to %d letters, digits, - _ . and @", job.MaxShortName)
	}
	if len(s.Scopes) == 0 {
		return field("scopes", "must be one or more of %s", scopeNames())
	}
	for i, scope := range s.Scopes {
		switch {
		case !slices.Contains(Scopes(), scope):
			return field("scopes", "must be of %s, not %q", scopeNames(), cut(string(scope)))
		case slices.Contains(s.Scopes[:i], scope):
			return field("scopes", "has %s twice", scope)
		}
	}
	if len(s.Spaces) > maxTokenSpaces {
		return field("spaces", "must be %d at most, not %d", maxTokenSpaces, len(s.Spaces))
	}
	for i, space := range s.Spaces {
		var wrong *job.FieldError
		if errors.As(job.ValidateName("space", space, job.MaxName), &wrong) {
			return field("spaces", "has one that %s", wrong.Reason)
		}
		if slices.Contains(s.Spaces[:i], space) {
			return field("spaces", "has %q twice", space)
		}
	}
	if len(s.Spaces) > 0 && slices.Contains(s.Scopes, ScopeAdmin) {
		return field("spaces", "must be left out with the scope admin: who makes tokens is good for all spaces")
	}
	if s.Expires < 0 || s.Expires > 0 && s.Expires < time.Second || s.Expires > maxTokenLife {
		return field("expires", "must be from 1s to %s, or left out", config.FormatDuration(maxTokenLife))
	}
	return nil
}

// CreateToken stores a token, and answers it with its secret, which is kept nowhere. The name may be that of a token that
// was revoked or has expired. Errors to branch on: *job.FieldError, ErrTokenExists, ErrManyTokens.
func (a *Access) CreateToken(ctx context.Context, spec TokenSpec) (Token, string, error) {
	if err := spec.check(); err != nil {
		return Token{}, "", err
	}
	secret := "jc_" + strings.ToLower(rand.Text()+rand.Text())
	sum := sha256.Sum256([]byte(secret))
	now := a.now().Truncate(time.Millisecond)
	made := storedToken{Token{Name: spec.Name, Scopes: spec.Scopes, Spaces: spec.Spaces, CreatedAt: now}, hex.EncodeToString(sum[:])}
	if spec.Expires > 0 {
		made.ExpiresAt = now.Add(spec.Expires)
	}
	_, err := kv.Change(ctx, a.tokenSpace(), tokenKey, func(doc *tokenDoc) (*tokenDoc, error) {
		next := &tokenDoc{}
		if doc != nil {
			next.Tokens = slices.Clone(doc.Tokens)
		}
		next.Tokens = slices.DeleteFunc(next.Tokens, func(t storedToken) bool {
			return t.endedBefore(now.Add(-keepEnded)) || t.Name == spec.Name && !t.good(now)
		})
		if slices.ContainsFunc(next.Tokens, func(t storedToken) bool { return t.Name == spec.Name }) {
			return nil, fmt.Errorf("%q: %w", spec.Name, ErrTokenExists)
		}
		if len(next.Tokens) >= maxStored { // those that have ended make room
			next.Tokens = slices.DeleteFunc(next.Tokens, func(t storedToken) bool { return !t.good(now) })
		}
		if len(next.Tokens) >= maxStored {
			return nil, ErrManyTokens
		}
		next.Tokens = append(next.Tokens, made)
		return next, nil
	}, nil)
	if err != nil {
		return Token{}, "", fmt.Errorf("create token: %w", err)
	}
	a.tokens.forget()
	return made.Token, secret, nil
}

// RevokeToken ends a token, and answers it. One that was revoked already stays as it is. The error to branch on is
// ErrNoToken.
func (a *Access) RevokeToken(ctx context.Context, name string) (Token, error) {
	var revoked Token
	now := a.now().Truncate(time.Millisecond)
	_, err := kv.Change(ctx, a.tokenSpace(), tokenKey, func(doc *tokenDoc) (*tokenDoc, error) {
		if doc == nil {
			return nil, fmt.Errorf("%q: %w", cut(name), ErrNoToken)
		}
		next := &tokenDoc{slices.Clone(doc.Tokens)}
		at := slices.IndexFunc(next.Tokens, func(t storedToken) bool { return t.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("%q: %w", cut(name), ErrNoToken)
		}
		t := &next.Tokens[at]
		was := t.RevokedAt
		if was.IsZero() {
			t.RevokedAt = now
		}
		revoked = t.Token
		if !was.IsZero() {
			return nil, nil
		}
		return next, nil
	}, nil)
	if errors.Is(err, ErrNoStore) {
		err = fmt.Errorf("%q: %w", cut(name), ErrNoToken)
	}
	if err != nil {
		return Token{}, fmt.Errorf("revoke token: %w", err)
	}
	a.tokens.forget()
	return revoked, nil
}

// Tokens lists the stored tokens by name, those that have ended for a while too.
func (a *Access) Tokens(ctx context.Context) ([]Token, error) {
	doc, _, err := kv.Get[tokenDoc](ctx, a.tokenSpace(), tokenKey)
	var used map[string]time.Time
	if err == nil {
		used, _, err = kv.Get[map[string]time.Time](ctx, a.tokenSpace(), usedKey)
	}
	if err != nil && !errors.Is(err, ErrNoStore) {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	out := make([]Token, len(doc.Tokens))
	for i, t := range doc.Tokens {
		out[i] = t.Token
		if at := used[t.Name]; !at.Before(t.CreatedAt) {
			out[i].LastUsedAt = at
		}
	}
	slices.SortFunc(out, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Closed reports whether a token was ever stored: from then on nobody calls without one, also when the last was revoked.
func (a *Access) Closed(ctx context.Context) (bool, error) {
	_, err := a.current(ctx)
	a.tokens.mu.Lock()
	defer a.tokens.mu.Unlock()
	if a.tokens.closed {
		return true, nil
	}
	return false, err
}

// forget has the tokens read again by whoever needs them next.
func (s *storedTokens) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read, s.failed = time.Time{}, time.Time{}
}

// current is the stored tokens as they were a second ago at most; with an error, as they were read last, nil if that is
// more than a minute ago.
func (a *Access) current(ctx context.Context) (*tokenDoc, error) {
	s := &a.tokens
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.read.IsZero() && time.Since(s.read) < tokensFor:
		return s.doc, nil
	case s.failed.IsZero() || time.Since(s.failed) >= tokensFor:
		a.readTokens(ctx)
	}
	if s.err == nil {
		return s.doc, nil
	}
	if s.read.IsZero() || time.Since(s.read) > tokensStale {
		return nil, s.err
	}
	return s.doc, s.err
}

// readTokens reads the tokens; the caller has the lock. Who asks first may go away before the others have their answer.
func (a *Access) readTokens(ctx context.Context) {
	s := &a.tokens
	var doc tokenDoc
	var there bool
	err := errDisconnected
	if a.cfg.Connected() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokensTimeout)
		defer cancel()
		doc, there, err = kv.Get[tokenDoc](ctx, a.tokenSpace(), tokenKey)
	}
	if errors.Is(err, ErrNoStore) {
		err = nil
	}
	if s.err = err; err != nil {
		s.failed = time.Now()
		return
	}
	if there && !s.closed && !s.read.IsZero() {
		a.cfg.Logger.Warn().Msg("a token was stored: from now on every request needs one")
	}
	s.closed = s.closed || there
	s.read, s.failed, s.doc = time.Now(), time.Time{}, &doc
}

// verdict is what the stored tokens say of a caller.
type verdict int

const (
	knownCaller   verdict = iota
	openToAll             // no token was ever stored
	unknownToken          // nobody's, or none at all
	expiredToken          // it was good once
	revokedToken          // the same
	cannotBeKnown         // the store cannot be read: it may be good
)

// find answers whose secret it is: the caller for a good token, and the name alone for one that was good. It compares
// with all of them, each in constant time.
func (a *Access) find(ctx context.Context, secret string) (*caller, verdict, error) {
	doc, err := a.current(ctx)
	a.tokens.mu.Lock()
	closed := a.tokens.closed
	a.tokens.mu.Unlock()
	var found *storedToken
	if doc != nil && secret != "" {
		sum := sha256.Sum256([]byte(secret))
		digits := []byte(hex.EncodeToString(sum[:]))
		for i := range doc.Tokens {
			if subtle.ConstantTimeCompare(digits, []byte(doc.Tokens[i].Hash)) == 1 {
				found = &doc.Tokens[i]
			}
		}
	}
	switch {
	case found != nil && !found.RevokedAt.IsZero():
		return &caller{name: found.Name}, revokedToken, nil
	case found != nil && !found.good(a.now()):
		return &caller{name: found.Name}, expiredToken, nil
	case found != nil:
		return &caller{name: found.Name, spaces: found.Spaces, scopes: found.Scopes}, knownCaller, nil
	case secret == "" && closed:
		return nil, unknownToken, nil
	case err != nil:
		return nil, cannotBeKnown, err
	case !closed:
		return nil, openToAll, nil
	}
	return nil, unknownToken, nil
}
