package httpcall

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	secretPrefix = "whsec_"
	minKey       = 24
	maxKey       = 64
)

// signer reads a secret: whsec_ and, in base64, a key of 24 to 64 bytes. Its errors do not quote it. (The library
// takes any key, also an empty one.)
func signer(secret string) (*standardwebhooks.Webhook, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(secret), secretPrefix)
	if !ok {
		return nil, fmt.Errorf("the secret does not begin with %s", secretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("what follows %s in the secret is no base64", secretPrefix)
	}
	if len(key) < minKey || len(key) > maxKey {
		return nil, fmt.Errorf("the secret's key has %d bytes, %d to %d are allowed", len(key), minKey, maxKey)
	}
	wh, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return nil, errors.New("the secret cannot be used")
	}
	return wh, nil
}
