package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/shell"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

// tour are the indented lines of the README's tour, in their order. The README is in the current directory.
func tour(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(b), "\n## Five minutes\n")
	require.True(t, ok)
	section, _, ok := strings.Cut(rest, "\n## ")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\nA worker of your own,")
	var lines []string
	for line := range strings.Lines(section) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, strings.TrimRight(code, "\n"))
		}
	}
	require.Greater(t, len(lines), 10)
	return lines
}

// TestReadmeTour does what the README's tour says, line by line, and sees what it shows.
func TestReadmeTour(t *testing.T) {
	t.Chdir("../..")
	dev := start(t, "dev", "--port", "0")
	dev.waitFor(t, "nats --server nats://")
	url := regexp.MustCompile(`nats://127\.0\.0\.1:\d+`).FindString(dev.out.String() + dev.err.String())
	require.NotEmpty(t, url)
	t.Setenv("JETCREW_URL", url)
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	defer nc.Close()

	var shown []string // what is left of the output of the last command
	ran := 0
	for _, line := range tour(t) {
		command, shows := strings.CutPrefix(line, "$ ")
		words, err := shell.Fields(command, nil)
		require.NoError(t, err, line)
		switch {
		case line == "make build", line == "bin/jetcrew dev": // they stand before this
		case words[0] == "bin/jetcrew" && words[1] == "work":
			w := start(t, words[1:]...)
			w.waitFor(t, "working")
			defer func() { require.Zero(t, w.stop(t), w.err) }()
		case words[0] == "bin/jetcrew":
			require.Empty(t, shown, "shown by the README, and not by the command before %q", line)
			r := call(t, words[1:]...).ok(t)
			ran++
			if shows {
				shown = strings.Split(strings.TrimSpace(r.out), "\n")
			}
			if words[1] == "job" && words[2] == "get" {
				require.Contains(t, r.out, words[3])
				shown = nil
			}
		case words[0] == "nats" && words[1] == "pub":
			require.NoError(t, nc.Publish(words[2], []byte(words[3])))
			require.NoError(t, nc.Flush())
			natsArrived(t, strings.Split(words[2], "."))
		case words[0] == "nats" && words[1] == "sub":
			_, err := nc.SubscribeSync(words[2])
			require.NoError(t, err)
		default: // output of the command before
			require.NotEmpty(t, shown, "the README shows %q", line)
			require.Equal(t, line, shown[0])
			shown = shown[1:]
		}
	}
	require.Greater(t, ran, 8)
	require.Equal(t, "succeeded", get(t, "succeeded", "flaky")["status"])
	require.Zero(t, dev.stop(t))
}

// natsArrived waits until a plainly published job can be read: a core publish has no answer.
func natsArrived(t *testing.T, tokens []string) {
	t.Helper()
	id := tokens[len(tokens)-1]
	require.Eventually(t, func() bool { return call(t, "job", "get", id).code == 0 }, 20*time.Second, 10*time.Millisecond)
}

// EmailInput is the input in the README's example.
type EmailInput struct{ To string }

// The README's programs. TestReadmePrograms compares them with what it shows; that they stand here means that they
// compile.
func readmeWorker(ctx context.Context, send func(context.Context, EmailInput) error) error {
	c, err := client.Connect(ctx, client.Config{URLs: []string{"nats://127.0.0.1:4222"}})
	if err != nil {
		return err
	}
	defer c.Close()

	w, err := worker.New(c.Store(), worker.Config{Queues: map[string]int{"mail": 10}})
	if err != nil {
		return err
	}
	worker.Handle(w, "email", func(ctx context.Context, j *job.Job, in EmailInput) (any, error) {
		return nil, send(ctx, in)
	})
	return w.Run(ctx) // until ctx ends; then it waits for what runs
}

func readmeProducer(ctx context.Context, c *client.Client) (err error) {
	_, err = c.Enqueue(ctx, "email", EmailInput{To: "ada@example.com"},
		client.WithID("welcome-42"), client.WithQueue("mail"), client.WithDelay(time.Hour))
	return err
}

func TestReadmePrograms(t *testing.T) {
	_, _ = readmeWorker, readmeProducer
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	here, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 2)
	for _, b := range blocks {
		require.Contains(t, flat(string(here)), flat(b[1]))
	}
}
