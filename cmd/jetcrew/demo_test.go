package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestDemoOnASmallDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits for a lease")
	}
	dir := t.TempDir()
	for i := range 60 {
		sub := filepath.Join(dir, fmt.Sprint("d", i%7))
		require.NoError(t, os.MkdirAll(sub, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(sub, fmt.Sprintf("f %d é.txt", i)), fmt.Appendf(nil, "file %d", i), 0o600))
	}
	require.NoError(t, os.Symlink("/etc/hosts", filepath.Join(dir, "link")))
	r := call(t, "demo", dir, "--json", "--max-files", "50").ok(t)
	var s demoSummary
	require.NoError(t, json.Unmarshal([]byte(r.out), &s))
	require.Equal(t, 52, s.Jobs)
	require.Equal(t, 50, s.Digests)
	require.Equal(t, 10, s.Files.Over)
	require.Equal(t, map[job.Status]int{job.Succeeded: 50, job.Dead: 2}, s.Statuses)
	require.GreaterOrEqual(t, s.Attempts, 52)
	require.Positive(t, s.Retried)
	require.Equal(t, probes, s.Probes)
	require.Empty(t, s.Problems)
}

// demoProcess runs the demo on some files in a process of its own, until its worker works.
func demoProcess(t *testing.T) (cmd *exec.Cmd, temp string, errs *lockedBuffer) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir, temp := t.TempDir(), t.TempDir()
	for i := range 100 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), fmt.Appendf(nil, "file %d", i), 0o600))
	}
	errs = &lockedBuffer{}
	cmd = exec.Command(os.Args[0], "demo", dir)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temp)
	cmd.Stderr = errs
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	require.Eventually(t, func() bool {
		ledgers, err := filepath.Glob(filepath.Join(temp, demoDir+"*", "ledger"))
		require.NoError(t, err)
		if len(ledgers) == 0 {
			return false
		}
		info, err := os.Stat(ledgers[0])
		return err == nil && info.Size() > 0
	}, 30*time.Second, 2*time.Millisecond, "%s", errs)
	return cmd, temp, errs
}

func isEmpty(t *testing.T, dir string) func() bool {
	return func() bool {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		return len(entries) == 0
	}
}

func TestAnInterruptedDemoSaysSoAndLeavesNothing(t *testing.T) {
	cmd, temp, errs := demoProcess(t)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Equal(t, exitFailure, cmd.ProcessState.ExitCode(), errs)
	require.Regexp(t, `^100 files under \S+\n(worker .*\n)?jetcrew: interrupted\n$`, errs.String())
	require.True(t, isEmpty(t, temp)())
}

func TestAKilledDemoLeavesNothing(t *testing.T) {
	cmd, temp, _ := demoProcess(t)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait()) // once nobody holds standard error any more
	require.Eventually(t, isEmpty(t, temp), 30*time.Second, 5*time.Millisecond)
}

func TestTheDemosWorkerRemovesNothingElse(t *testing.T) {
	for _, name := range []string{"precious", demoDir + "1"} {
		dir := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		workerSetup{Temp: dir, Ledger: filepath.Join(dir, "ledger")}.cleanUp()
		if name == "precious" {
			require.DirExists(t, dir)
		} else {
			require.NoDirExists(t, dir)
		}
	}
	workerSetup{}.cleanUp()
}

func TestTheDemoLeavesOutFilesThatAreGone(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and waits for a lease")
	}
	dir := t.TempDir()
	for i := range 40 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d", i)), fmt.Appendf(nil, "file %d", i), 0o600))
	}
	d := start(t, "demo", dir, "--json")
	d.waitFor(t, "files under") // they are listed; the last is handled after some seconds
	require.NoError(t, os.Remove(filepath.Join(dir, "39")))
	require.Zero(t, d.ends(t), d.err)
	var s demoSummary
	require.NoError(t, json.Unmarshal([]byte(d.out.String()), &s))
	require.Equal(t, 39, s.Digests)
	require.Equal(t, 1, s.Changed)
	require.Empty(t, s.Problems)
}

func TestDemoOnNothing(t *testing.T) {
	r := call(t, "demo", t.TempDir())
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "no regular file")
}

// The demo is worth nothing unless it finds what is wrong.
func TestTheDemoFindsWhatIsWrong(t *testing.T) {
	const killed, alive = 1, 2
	end := time.Now()
	file := demoFile{"a", digest{"abc", 3}}
	good := func() (*planned, *job.Job, []entry) {
		p := &planned{spec: job.Spec{ID: "x"}, file: &file, end: job.Succeeded, fails: 1}
		j := &job.Job{
			ID: "x", Status: job.Succeeded, Result: []byte(`{"sha256":"abc","bytes":3}`), UpdatedAt: end,
			History: []job.Attempt{{Attempt: 1, Status: job.AttemptFailed}, {Attempt: 2, Status: job.AttemptSucceeded}},
		}
		before := end.Add(-time.Second)
		return p, j, []entry{
			{ledgerStart, "x", 1, killed, before},
			{ledgerFail, "x", 1, killed, before},
			{ledgerStart, "x", 2, alive, before},
			{ledgerDone, "x", 2, alive, before},
		}
	}
	judge := func(p *planned, j *job.Job, lines []entry, ends int) []string {
		c := newCheck(lines, killed)
		c.again = func(string) (digest, error) { return file.want, nil }
		c.judge(p, j, ends)
		return c.problems
	}
	p, j, lines := good()
	require.Empty(t, judge(p, j, lines, 1))
	require.Empty(t, judge(p, j, lines, 0), "a killed worker tells of nothing")
	require.Empty(t, judge(p, j, append([]entry{{ledgerDone, "x", 1, killed, lines[0].at}}, lines...), 1),
		"killed between the end of a handler and its settlement")
	require.Len(t, judge(p, j, lines, 2), 1, "settled twice")
	require.Len(t, judge(p, nil, lines, 1), 1, "lost")

	for name, spoil := range map[string]func(p *planned, j *job.Job, lines *[]entry){
		"another end":       func(_ *planned, j *job.Job, _ *[]entry) { j.Status = job.Dead },
		"wrong digest":      func(_ *planned, j *job.Job, _ *[]entry) { j.Result = []byte(`{"sha256":"abd","bytes":3}`) },
		"wrongly gone":      func(_ *planned, j *job.Job, _ *[]entry) { j.Result = []byte(`{"gone":"no such file"}`) },
		"no digest":         func(_ *planned, j *job.Job, _ *[]entry) { j.Result = nil },
		"no failure":        func(_ *planned, j *job.Job, _ *[]entry) { j.History = j.History[1:] },
		"two successes":     func(_ *planned, j *job.Job, _ *[]entry) { j.History = append(j.History, j.History[1]) },
		"never done":        func(_ *planned, _ *job.Job, l *[]entry) { *l = (*l)[:3] },
		"success run again": func(_ *planned, _ *job.Job, l *[]entry) { *l = append(*l, (*l)[3]) },
		"run after its end": func(_ *planned, _ *job.Job, l *[]entry) {
			*l = append(*l, entry{ledgerStart, "x", 3, alive, end.Add(time.Second)})
		},
		"before it was due": func(_ *planned, j *job.Job, _ *[]entry) { j.DueAt = end },
	} {
		p, j, lines := good()
		spoil(p, j, &lines)
		require.NotEmpty(t, judge(p, j, lines, 1), name)
	}

	bad := &planned{spec: job.Spec{ID: "x"}, raw: "{", end: job.Dead}
	require.Empty(t, judge(bad, &job.Job{Status: job.Dead, Raw: []byte("{"), UpdatedAt: end}, nil, 1))
	require.NotEmpty(t, judge(bad, &job.Job{Status: job.Dead, UpdatedAt: end}, nil, 1), "bytes gone")
	require.NotEmpty(t, judge(bad, &job.Job{Status: job.Dead, Raw: []byte("{"), UpdatedAt: end}, lines, 1), "a handler ran")
	gaveUp := &planned{spec: job.Spec{ID: "x"}, reason: "never", end: job.Dead}
	require.NotEmpty(t, judge(gaveUp, &job.Job{Status: job.Dead, Error: "else", UpdatedAt: end}, nil, 1))
}
