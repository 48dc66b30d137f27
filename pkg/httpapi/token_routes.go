package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"time"
)

// tokensAPI serves the stored tokens.
type tokensAPI struct{ *Config }

func registerTokens(r *routes) {
	v := tokensAPI{r.cfg}
	add[TokenList](r, route{
		id: "listTokens", method: http.MethodGet, path: "/v1/tokens", scope: ScopeAdmin, place: inFleet,
		summary: "List the stored tokens, without their secrets", says: "Those that have ended too, for 30 days.",
	}, v.list)
	add[TokenMade](r, route{
		id: "createToken", method: http.MethodPost, path: "/v1/tokens", scope: ScopeAdmin, place: inFleet, also: []int{http.StatusConflict},
		summary: "Make a token", says: "Its secret is in the answer, and is kept nowhere. 409 if there is one of that name that is good.",
		body: reflect.TypeFor[NewToken](), good: []int{http.StatusCreated},
	}, v.create)
	add[Token](r, route{
		id: "revokeToken", method: http.MethodDelete, path: "/v1/tokens/{token}", scope: ScopeAdmin, place: inFleet, also: []int{http.StatusNotFound},
		summary: "Revoke a token", says: "It is good for a second or two more. One that was revoked stays as it is.",
	}, v.revoke)
}

// NewToken asks for a token.
type NewToken struct {
	Name    string   `json:"name" doc:"1 to 64 letters, digits, - _ . and @." example:"shop"`
	Scopes  []Scope  `json:"scopes" doc:"What it may do: one or more."`
	Spaces  []string `json:"spaces,omitempty" doc:"The spaces that it is good for, 50 at most; left out: all."`
	Expires string   `json:"expires,omitempty" doc:"How long it is good for; left out: until it is revoked." example:"90d"`
}

// TokenMade is a token that was made.
type TokenMade struct {
	Token
	Secret string `json:"secret" doc:"What stands after Bearer. It is shown this once."`
}

// TokenList are the stored tokens.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

func (v tokensAPI) list(ctx context.Context, _ *struct{}) (any, error) {
	tokens, err := v.Access.Tokens(ctx)
	return TokenList{tokens}, err
}

func (v tokensAPI) create(ctx context.Context, _ *struct{}) (any, error) {
	var in struct {
		Name    string        `json:"name"`
		Scopes  []Scope       `json:"scopes"`
		Spaces  []string      `json:"spaces"`
		Expires time.Duration `json:"expires"`
	}
	if p := decodeBody(ctx, &in); p != nil {
		return nil, p
	}
	if v.Tokens.has(in.Name) {
		return nil, ErrTokenExists
	}
	t, secret, err := v.Access.CreateToken(ctx, TokenSpec{in.Name, in.Scopes, in.Spaces, in.Expires})
	if err != nil {
		return nil, err
	}
	return reply{location: "/v1/tokens/" + url.PathEscape(t.Name), body: TokenMade{t, secret}}, nil
}

type oneToken struct {
	Token string `path:"token" doc:"The name of a stored token."`
}

func (v tokensAPI) revoke(ctx context.Context, in *oneToken) (any, error) {
	return answered(v.Access.RevokeToken(ctx, in.Token))
}
