package kv_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func BenchmarkPutIntoAListOf500(b *testing.B) {
	list := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{}).Space("s").List("l")
	for i := range 500 {
		_, _, err := list.Put(b.Context(), fmt.Sprint(i), float64(i), map[string]string{"name": "somebody", "level": "one"})
		require.NoError(b, err)
	}
	for i := 0; b.Loop(); i++ {
		_, _, err := list.Put(b.Context(), fmt.Sprint(i%500), float64(i%700), "v")
		require.NoError(b, err)
	}
}

func BenchmarkChange(b *testing.B) {
	space := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{}).Space("s")
	for b.Loop() {
		_, err := kv.Change(b.Context(), space, "k", add(1), nil)
		require.NoError(b, err)
	}
}
