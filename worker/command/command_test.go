package command_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker/command"
)

func TestInputComesOnStandardInput(t *testing.T) {
	s := script(t, `read -r line && printf '{"got":%s}' "$line"`)
	got, err := s.run(`{"to":"ann"}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"got":{"to":"ann"}}`, got)
	got, err = s.run("")
	require.NoError(t, err)
	require.JSONEq(t, `{"got":{}}`, got)
}

func TestTheEnvironmentIsTheJobAndWhatIsAllowed(t *testing.T) {
	t.Setenv("PASSED", "yes")
	t.Setenv("NOT_NAMED", "canary")
	t.Setenv("JETCREW_PASSWORD", "canary")
	t.Setenv("TZ", "UTC")
	s := script(t, `env`, func(cfg *command.Config) {
		cfg.Pass = []string{"PASSED", "NOT_SET"}
		cfg.Set["MODE"] = "batch"
		cfg.Set["TZ"] = "Europe/Berlin"
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := s.runIn(ctx, "")
	require.NoError(t, err)
	for _, want := range []string{
		"JETCREW_JOB_ID=1", "JETCREW_JOB_SPACE=acme", "JETCREW_JOB_QUEUE=mail", "JETCREW_JOB_TYPE=t", "JETCREW_JOB_ATTEMPT=2",
		"JETCREW_JOB_MAX_ATTEMPTS=3", "JETCREW_JOB_RUN_ID=r", "JETCREW_JOB_TRIGGER=call", "JETCREW_JOB_ENVIRONMENT=main",
		"JETCREW_JOB_MISSED=0", "JETCREW_JOB_DEADLINE=", "JETCREW_JOB_TIMEOUT=59", "PASSED=yes", "MODE=batch", "TZ=Europe/Berlin", "PATH=",
	} {
		require.Contains(t, got, want)
	}
	require.NotContains(t, got, "canary")
	require.NotContains(t, got, "NOT_SET")
}

func TestTheEnvironmentNamesTheTrace(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	t.Setenv("TRACEPARENT", "the worker's own")
	s := script(t, `env | grep ^TRACE || true`)
	j := aJob()
	for want, trace := range map[string]job.Trace{
		"": {}, "TRACEPARENT=" + parent: {Parent: parent}, "TRACEPARENT=" + parent + "\nTRACESTATE=vendor=some": {Parent: parent, State: "vendor=some"},
	} {
		j.Trace = trace
		got, err := s.Run(t.Context(), j, nil)
		require.NoError(t, err)
		if want == "" {
			require.Nil(t, got)
			continue
		}
		b, err := job.Encode(got)
		require.NoError(t, err)
		var text string
		require.NoError(t, job.Decode(b, &text))
		require.Equal(t, want, text)
	}
}

func TestTheResultIsWhatItWrites(t *testing.T) {
	for _, c := range []struct{ write, want string }{
		{`{"a": 1}\n`, `{"a":1}`},
		{`42\n`, `42`},
		{`"text"`, `"text"`},
		{`done\n`, `"done"`},
		{`two\nlines\n`, `"two\nlines"`},
		{`{"a":1,"a":2}`, `"{\"a\":1,\"a\":2}"`},
		{`{"half":`, `"{\"half\":"`},
		{`\377x`, `"` + "\uFFFD" + `x"`},
		{` \n\n`, ``},
		{``, ``},
	} {
		got, err := script(t, `printf "$W"`, func(cfg *command.Config) { cfg.Set["W"] = c.write }).run("")
		require.NoError(t, err)
		if c.want == "" {
			require.Empty(t, got, c.write)
		} else {
			require.JSONEq(t, c.want, got, c.write)
		}
	}
}

func TestExitCodesSayWhatBecomesOfTheJob(t *testing.T) {
	for _, c := range []struct {
		script string
		check  func(err error)
	}{
		{`echo "no such address" >&2; exit 65`, func(err error) {
			require.ErrorAs(t, err, new(*job.GiveUpError))
			require.EqualError(t, err, "the program gave up (exit code 65): no such address")
		}},
		{`echo busy >&2; echo "retry-after: 90s" >&2; exit 75`, func(err error) {
			require.Equal(t, &job.SnoozeError{Delay: 90 * time.Second, Reason: "the program asked to be run later (exit code 75): busy"}, err)
		}},
		{`echo "Retry-After: 7" >&2; exit 75`, func(err error) {
			require.Equal(t, &job.SnoozeError{Delay: 7 * time.Second, Reason: "the program asked to be run later (exit code 75)"}, err)
		}},
		{`echo "retry-after: 0" >&2; exit 75`, func(err error) {
			var s *job.SnoozeError
			require.ErrorAs(t, err, &s)
			require.Equal(t, time.Second, s.Delay, "not at once: that would go round and round")
		}},
		{`echo "retry-after: 9999h" >&2; exit 75`, func(err error) {
			var s *job.SnoozeError
			require.ErrorAs(t, err, &s)
			require.Equal(t, 24*time.Hour, s.Delay)
		}},
		{`echo "retry-after: soon" >&2; exit 75`, func(err error) {
			var r *job.Refusal
			require.ErrorAs(t, err, &r)
			require.True(t, r.Code.NotNow())
		}},
		{`echo first >&2; echo "not on Sundays" >&2; exit 77`, func(err error) {
			require.Equal(t, job.Refuse(command.CodeRefused, "not on Sundays"), err)
		}},
		{`exit 77`, func(err error) {
			require.Equal(t, job.Refuse(command.CodeRefused, "the program refused the job"), err)
		}},
		{`echo a >&2; echo b >&2; exit 3`, func(err error) { require.EqualError(t, err, "exit code 3: a\nb") }},
		{`echo "retry-after: 5m" >&2; exit 3`, func(err error) {
			var r *job.RetryError
			require.ErrorAs(t, err, &r)
			require.Equal(t, 5*time.Minute, r.Delay)
			require.EqualError(t, err, "exit code 3")
		}},
		{`kill -SEGV $$`, func(err error) { require.EqualError(t, err, "the program was ended by SIGSEGV") }},
	} {
		_, err := script(t, c.script).run("")
		require.Error(t, err, c.script)
		c.check(err)
	}
}

func TestWhatItSaysIsLoggedWithinLimitsAndWithoutSecrets(t *testing.T) {
	s := script(t, `
		echo "password=canary1 here" >&2
		echo "using $API_KEY" >&2
		printf 'a progress bar\rnext\n' >&2
		head -c 100000 /dev/zero | tr '\0' x >&2; echo >&2
		i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "line $i"; done >&2
		echo "nats://u:canary2@h and $API_KEY" >&2
		exit 1`,
		func(cfg *command.Config) {
			cfg.Set["API_KEY"] = "canary3"
			cfg.Redact = func(s string) string { return strings.ReplaceAll(s, "line 2999", "line more") }
		})
	_, err := s.run("")
	require.Error(t, err)
	require.Less(t, len(err.Error()), job.MaxError)
	require.True(t, strings.HasPrefix(err.Error(), "exit code 1: line "), err)
	require.Contains(t, err.Error(), "line more\nline 3000\nnats://[redacted]@h and [redacted]")
	logs := s.logs.String()
	require.NotContains(t, logs+err.Error(), "canary")
	require.Contains(t, logs, `"stderr":"next"`)
	require.Contains(t, logs, `"job":"mail/acme/1","type":"t","attempt":2`)
	require.Less(t, len(logs), 512<<10)
	require.Less(t, strings.Count(logs, "\n"), 1010)
	require.Contains(t, logs, "more than is logged")
}

func TestAMistakeShowsBeforeAJobIsTaken(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain.sh")
	require.NoError(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600))
	for _, c := range []struct {
		cfg  command.Config
		want string
	}{
		{command.Config{}, "no program is named"},
		{command.Config{Args: []string{""}}, "no program is named"},
		{command.Config{Args: []string{"no-such-program-here"}}, `program "no-such-program-here": executable file not found in $PATH`},
		{command.Config{Args: []string{"./gone"}, Dir: dir}, "program " + dir + "/gone: no such file or directory"},
		{command.Config{Args: []string{plain}}, "program " + plain + ": is not executable (mode -rw-------)"},
		{command.Config{Args: []string{dir}}, "program " + dir + ": is a directory"},
		{command.Config{Args: []string{"sh", "a\x00b"}}, "an argument has a NUL in it"},
		{command.Config{Args: []string{"sh"}, Dir: dir + "/none"}, "working directory " + dir + "/none: no such file or directory"},
		{command.Config{Args: []string{"sh"}, Dir: plain}, "working directory " + plain + ": is no directory"},
		{command.Config{Args: []string{"sh"}, Pass: []string{"A=B"}}, `"A=B" is no name of a variable`},
		{command.Config{Args: []string{"sh"}, Set: map[string]string{"": "x"}}, `"" is no name of a variable`},
		{command.Config{Args: []string{"sh"}, Set: map[string]string{"A": "\x00"}}, "A: has a NUL in it"},
		{command.Config{Args: []string{"sh"}, Set: map[string]string{"JETCREW_JOB_ID": "x"}}, "JETCREW_JOB_ID: variables that begin with JETCREW_JOB_ are the job's"},
		{command.Config{Args: []string{"sh"}, MaxOutput: -1}, "the most output must be 1 to 16777216 bytes, not -1"},
		{command.Config{Args: []string{"sh"}, Grace: -1}, "the grace must not be negative, not -1ns"},
	} {
		_, err := command.New(c.cfg)
		require.EqualError(t, err, c.want)
	}
}

func TestARelativeProgramIsUnderItsDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "here.sh"), []byte("#!/bin/sh\npwd\n"), 0o700))
	c, err := command.New(command.Config{Args: []string{"./here.sh"}, Dir: dir})
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, filepath.Join(dir, "here.sh"), c.Path())
	got, err := c.Run(t.Context(), aJob(), nil)
	require.NoError(t, err)
	require.Equal(t, dir, got)
}

func TestAProgramThatIsGoneForAWhileCostsNoAttempt(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "p.sh")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o700))
	c, err := command.New(command.Config{Args: []string{file}})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, os.Remove(file))
	_, err = c.Run(t.Context(), aJob(), nil)
	var r *job.Refusal
	require.ErrorAs(t, err, &r)
	require.True(t, r.Code.NotNow())
	require.EqualError(t, err, file+" cannot be started: no such file or directory")

	require.NoError(t, os.WriteFile(file, []byte("no program at all"), 0o700))
	_, err = c.Run(t.Context(), aJob(), nil)
	require.EqualError(t, err, file+" cannot be started: exec format error")
}

func TestACommandLineIsSplitAsAShellWould(t *testing.T) {
	for line, want := range map[string][]string{
		`a b  c`:            {"a", "b", "c"},
		`a "b c" 'd e'`:     {"a", "b c", "d e"},
		`a b\ c "d\"e" f''`: {"a", "b c", `d"e`, "f"},
		`a ''`:              {"a", ""},
		`a '$HOME' '*' "|"`: {"a", "$HOME", "*", "|"},
		`a \* \$x`:          {"a", "*", "$x"},
		`a x=1 --k=v`:       {"a", "x=1", "--k=v"},
	} {
		got, err := command.Split(line)
		require.NoError(t, err, line)
		require.Equal(t, want, got)
	}
	for _, line := range []string{
		"", "  ", "# x", `a "b`, "a 'b", "a | b", "a > b", "a; b", "a && b", "a &", "! a", "X=1 a", "a $HOME", `a "$HOME"`, "a `b`",
		"a $(b)", "a *.txt", "a b?", "a [ab]", "~/a", "a ~", "a {b,c}", "a\nb", "if x; then y; fi", "(a)",
	} {
		_, err := command.Split(line)
		require.Error(t, err, line)
	}
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{`a "b c"`, `a\ b`, `$x`, `'`, "a|b", "a{b,c}", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if got, err := command.Split(line); err == nil {
			require.NotEmpty(t, got)
		}
	})
}
