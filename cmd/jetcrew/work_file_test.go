package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/worker"
	"github.com/jetcrew/jetcrew/worker/command"
	"github.com/jetcrew/jetcrew/worker/httpcall"
)

func TestAFileSaysAllOfIt(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(hookSecret+"\n"), 0o600))
	path := filepath.Join(dir, "handlers.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
queues: {mail: 0, default: 4}
handlers:
  - type: thumbnail
    exec: ["./thumb.sh", "--size", 200, 1.10, true, "$HOME"]
    dir: app
    env: [AWS_REGION]
    set: {MODE: batch, N: 1.10}
    timeout: 2m
    retry: {base: 5s, max: 5m}
    maxOutput: 256KiB
  - type: "a=b"
    exec: ./x 'a b'
    dir: /srv
  - type: notify
    http: https://example.com/hook
    secret: {file: secret}
    timeout: 30s
    allowPrivate: true
    useProxy: true
  - {type: plain, http: "http://h", unsigned: true}
`), 0o600))
	specs, queues, err := readHandlerFile(path)
	require.NoError(t, err)
	require.Equal(t, config.Queues{{Name: "default", Concurrency: 4}, {Name: "mail", Concurrency: 0}}, queues)
	require.Equal(t, []handlerSpec{
		{
			typ: "thumbnail", from: path + ":4", timeout: 2 * time.Minute, retry: worker.RetryPolicy{Base: 5 * time.Second, Max: 5 * time.Minute},
			exec: &command.Config{
				Args: []string{"./thumb.sh", "--size", "200", "1.10", "true", "$HOME"}, Dir: dir + "/app", Pass: []string{"AWS_REGION"},
				Set: map[string]string{"MODE": "batch", "N": "1.10"}, MaxOutput: 256 << 10,
			},
		},
		{typ: "a=b", from: path + ":12", exec: &command.Config{Args: []string{"./x", "a b"}, Dir: "/srv", Set: map[string]string{}}},
		{
			typ: "notify", from: path + ":15", timeout: 30 * time.Second,
			http: &httpcall.Config{URL: "https://example.com/hook", Secret: hookSecret, AllowPrivate: true, UseProxy: true},
		},
		{typ: "plain", from: path + ":21", http: &httpcall.Config{URL: "http://h", Unsigned: true}},
	}, specs)
}

func TestAWrongFileIsRefusedWithTheLine(t *testing.T) {
	t.Setenv("HOOK_SECRET", hookSecret)
	const head = "handlers:\n  - type: t\n"
	for _, c := range []struct{ text, want string }{
		{"", ": is empty"},
		{"# nothing\n", ": "},
		{"handlers: []\n", ": names no handlers"},
		{"queues: {default: 4}\n", ": names no handlers"},
		{"handlers: {}\n", ":1: "},
		{"handlers:\n  -\n", ":1: type: must not be empty"},
		{head + "    exec:\n", `:2: handler "t": needs exec or http`},
		{head + "    exec: [a, ~]\n", ":3: exec: an argument is text"},
		{"handlers: [1]\n", ":1: a handler is a mapping"},
		{head + "    exec: true\n    colour: red\n", `:4: unknown field "colour"`},
		{"queue: {a: 1}\n" + head + "    exec: true\n", `:1: unknown field "queue"`},
		{head + "    exec: true\n    exec: false\n", ":4: "},
		{head + "    exec: {a: b}\n", ":3: exec is a list of a program and its arguments, or text"},
		{head + "    exec: []\n", ":3: exec: no program is named"},
		{head + "    exec: [a, [b]]\n", ":3: exec: an argument is text"},
		{head + "    exec: a | b\n", ":3: exec: more than one program"},
		{head + "    exec: true\n    timeout: 30\n", ":4: a length of time such as 30s or 2m is expected"},
		{head + "    exec: true\n    timeout: -1s\n", ":4: a length of time"},
		{head + "    exec: true\n    timeout: [1s]\n", ":4: a length of time"},
		{head + "    exec: true\n    retry: {base: 5m, max: 5s}\n", `:2: handler "t": retry.base must not exceed retry.max`},
		{head + "    exec: true\n    retry: {bas: 5m}\n", `:4: unknown field "bas"`},
		{head + "    exec: true\n    retry: 5\n", ":4: "},
		{head + "    exec: true\n    maxOutput: lots\n", ":4: a number of bytes such as 256KiB is expected"},
		{head + "    exec: true\n    maxOutput: 99999999999GB\n", ":4: a number of bytes"},
		{head + "    exec: true\n    maxOutput: 1MB\n    env: A\n", ":5: "},
		{head + "    exec: true\n    set: [A]\n", ":4: "},
		{head + "    exec: true\n    set: {A: [b]}\n", ":4: text is expected"},
		{head + "    exec: true\n    http: http://h\n", `:2: handler "t": has both exec and http`},
		{head + "    timeout: 1s\n", `:2: handler "t": needs exec or http`},
		{"handlers:\n  - exec: true\n", ":2: type: must not be empty"},
		{head + "    exec: true\n    secret: {env: HOOK_SECRET}\n    unsigned: true\n", `:2: handler "t": secret, unsigned does not go with it`},
		{head + "    http: http://h\n    unsigned: true\n    dir: /\n    env: []\n", `:2: handler "t": dir, env does not go with it`},
		{head + "    http: http://h\n    secret: whsec_canary\n", ":4: a secret is given as {env: NAME} or {file: PATH}, and never written here"},
		{head + "    http: http://h\n    secret: {env: A, file: b}\n", ":4: a secret is given as"},
		{head + "    http: http://h\n    secret: {value: whsec_canary}\n", `:4: unknown field "value"`},
		{head + "    http: http://h\n    secret: {env: NOT_SET}\n", `:2: handler "t": the secret's variable "NOT_SET" is not set`},
		{head + "    http: http://h\n    secret: {file: nowhere}\n", `:2: handler "t": secret: open `},
		{head + "    http: http://h\n    allowPrivate: 7\n", ":4: "},
		{head + "    http: http://h\n", `:2: handler "t": there is no secret to sign with`},
		{head + "    exec: /no/such/program\n", `:2: handler "t": program /no/such/program: no such file or directory`},
		{head + "    exec: true\n  - type: t\n    exec: false\n", `:4: type "t" has a handler already (`},
		{"queues: {a: -1}\n" + head + "    exec: true\n", ":1: how many jobs of a queue run at a time"},
		{"queues: {a: }\n" + head + "    exec: true\n", `: queues: "a" needs a number`},
		{"queues: [a]\n" + head + "    exec: true\n", ":1: "},
		{"queues: {'': 1}\n" + head + "    exec: true\n", ": queues: must not be empty"},
		{head + "    exec: true\n---\n" + head, ": holds more than one document"},
		{head + "    exec: \"true\n", ":3: "},
		{head + "   exec: true\n", ":"},
		{"\t- a\n", ":1: "},
	} {
		t.Run(c.want, func(t *testing.T) {
			path := write(t, "h.yaml", c.text, 0o600)
			r := call(t, "work", "--handlers", path, "--url", "nats://127.0.0.1:1")
			require.Equal(t, exitUsage, r.code, "%s%s", c.text, r.err)
			require.Contains(t, r.err, path+c.want, c.text)
			require.Equal(t, 1, strings.Count(r.err, "\n"), r.err)
			require.NotContains(t, r.err, "canary")
		})
	}
}

func TestAllMistakesOfAFileAreNamedAtOnce(t *testing.T) {
	path := write(t, "h.yaml", "handlers:\n  - type: a\n    exec: /no/a\n  - type: b\n    exec: /no/b\n", 0o600)
	r := call(t, "work", "--handlers", path, "--exec", "a=true")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, fmt.Sprintf(`%s:2: type "a" has a handler already (--exec a)`, path))
	require.Contains(t, r.err, fmt.Sprintf(`%s:4: handler "b": program /no/b`, path))
}

func TestTheFilesQueuesAreTakenUnlessAFlagSaysWhich(t *testing.T) {
	serve(t)
	path := write(t, "h.yaml", "queues: {mail: 1}\nhandlers:\n  - type: t\n    exec: 'true'\n", 0o600)
	r := start(t, "work", "--handlers", path)
	r.waitFor(t, `"slots":1`)
	call(t, "enqueue", "t", "--queue", "mail", "--id", "1").ok(t)
	get(t, "succeeded", "1")
	require.Zero(t, r.stop(t))

	r = start(t, "work", "--handlers", path, "--queues", "other=2")
	r.waitFor(t, `"slots":2`)
	r.waitFor(t, "the queues of the file are not used: the flag says which")
	require.Zero(t, r.stop(t))
}

func FuzzParseHandlerFile(f *testing.F) {
	example, err := os.ReadFile("../../docs/examples/handlers.yaml")
	require.NoError(f, err)
	f.Add(string(example))
	for _, s := range []string{"", "handlers:\n- &a {type: t}\n- *a\n", "handlers: [{type: t, exec: [a, ~]}]", "a: !!binary x", "- - -"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := parseHandlerFile([]byte(text))
		if err == nil {
			require.NotEmpty(t, file.Handlers)
		}
	})
}
