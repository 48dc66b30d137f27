package main

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestServeAnswersCallsAndTellsEvents(t *testing.T) {
	serve(t)
	s := start(t, "serve", "--listen", "127.0.0.1:0", "--replay-window", "1h", "--max-calls", "2")
	url := s.listening(t)
	w := start(t, "work", "--builtin", "echo", "--no-lead")

	c := &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	stream, err := c.Get(url + "/v1/events?space=default")
	require.NoError(t, err)
	defer stream.Body.Close()
	require.Equal(t, 200, stream.StatusCode)

	for _, replayed := range []string{"", "true"} {
		req, err := http.NewRequest("POST", url+"/v1/calls?wait=20s", strings.NewReader(`{"type":"echo","input":{"a":1}}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "k")
		resp, err := c.Do(req)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, replayed, resp.Header.Get("Idempotency-Replayed"))
		require.NoError(t, resp.Body.Close())
	}
	lines := bufio.NewScanner(stream.Body)
	told := false
	for !told && lines.Scan() {
		told = lines.Text() == "event: succeeded"
	}
	require.True(t, told)

	// One call waits for nobody, and the stream is open: neither holds up the end.
	waits := make(chan int, 1)
	go func() {
		req, err := http.NewRequest("POST", url+"/v1/calls?wait=5m", strings.NewReader(`{"type":"nobody","queue":"nobody"}`))
		if err != nil {
			waits <- 0
			return
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := c.Do(req)
		if err != nil {
			waits <- 0
			return
		}
		_ = resp.Body.Close()
		waits <- resp.StatusCode
	}()
	require.Eventually(t, func() bool {
		_, body := request(t, "GET", url+"/v1/runs", "", "")
		return strings.Contains(body, `"nobody"`)
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, exitOK, s.stop(t))
	require.Equal(t, 202, <-waits)
	for lines.Scan() { // to its end
		continue
	}
	require.NoError(t, lines.Err(), "the stream ends in order")
	require.Equal(t, exitOK, w.stop(t))
}

func TestLimitsOfCallsThatCannotBeAreRefused(t *testing.T) {
	for flag, value := range map[string]string{"--replay-window": "-1s", "--max-calls": "-1", "--max-calls-per-space": "-1", "--max-streams": "0"} {
		r := call(t, "serve", flag, value)
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.err, flag)
	}
}
