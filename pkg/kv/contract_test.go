package kv_test

import (
	"testing"

	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/pkg/kv/kvtest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	kvtest.Run(t, func(*testing.T) kv.Adapter { return newClocked(kv.MemoryOptions{}) })
}

func TestMemoryKeepsTheContractByTheClockOnTheWall(t *testing.T) {
	kvtest.Run(t, func(*testing.T) kv.Adapter { return kv.NewMemory(kv.MemoryOptions{}) })
}
