package kv_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestAHandlersContextHasItsSpace(t *testing.T) {
	_, ok := kv.FromContext(t.Context())
	require.False(t, ok)
	space, _, _ := newSpace(t)
	got, ok := kv.FromContext(kv.NewContext(t.Context(), space))
	require.True(t, ok)
	require.Same(t, space, got)
}
