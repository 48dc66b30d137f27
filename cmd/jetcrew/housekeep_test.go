package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/streams"
)

func TestContractB9_HousekeepingTellsOfAnOutageAtItsEnds(t *testing.T) {
	var log bytes.Buffer
	h := &housekeeping{log: zerolog.New(&log)}
	failed := 0
	for _, err := range []error{nil, errors.New("no answer"), errors.New("no answer"), errors.New("refused"), nil, nil} {
		failed = h.tellOutage(err, failed)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2, log.String())
	require.Contains(t, lines[0], "no answer")
	require.Contains(t, lines[1], `"failed":3`)
}

func TestHousekeepingTellsWhatARoundRepaired(t *testing.T) {
	var log bytes.Buffer
	h := &housekeeping{log: zerolog.New(&log)}
	h.tell(streams.SweepReport{})
	h.tell(streams.SweepReport{Garbage: 3})
	require.Empty(t, log.String(), "nothing was repaired")
	h.tell(streams.SweepReport{LateDue: 2, Queues: 1})
	require.Contains(t, log.String(), `"lateDue":2,"queues":1`)
	require.NotContains(t, log.String(), "older")
}
