package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/doctor"
)

// examine runs the command by itself.
func examine(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var b, errs bytes.Buffer
	a := &app{stdout: &b, stderr: &errs, environ: os.Environ(), signals: processSignals}
	root := &cobra.Command{Use: "jetcrew", SilenceErrors: true, SilenceUsage: true}
	root.SetOut(&b)
	root.SetErr(&errs)
	addGlobalFlags(root)
	root.AddCommand(a.newDoctor())
	root.SetArgs(append([]string{"doctor", "--timeout", "30s"}, args...))
	err = root.Execute()
	require.Empty(t, errs.String())
	return b.String(), err
}

func TestDoctorOnAnEmptyServer(t *testing.T) {
	serve(t)
	for range 2 { // it has made nothing, so it says the same again
		out, err := examine(t)
		require.ErrorContains(t, err, "findings are errors")
		require.False(t, isUsage(err))
		require.Regexp(t, `(?m)^error    jobs-stream      stream JETCREW_JOBS is missing.* → run jetcrew setup`, out)
		require.Regexp(t, `(?m)^ok       jetstream        JetStream is on`, out)
		require.Regexp(t, `\d+ ok, \d+ warnings, [1-9]\d* errors\n$`, out)
	}
}

func TestDoctorOnAFleet(t *testing.T) {
	dev := start(t, "dev", "--port", "0")
	dev.waitFor(t, "nats --server nats://")
	t.Setenv("JETCREW_URL", regexp.MustCompile(`nats://127\.0\.0\.1:\d+`).FindString(dev.out.String()+dev.err.String()))
	call(t, "setup").ok(t)
	out, err := examine(t, "--json")
	require.NoError(t, err, out)
	var r doctorOutput
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Zero(t, r.Errors)
	require.Equal(t, "jetcrew", r.Namespace)
	require.Equal(t, len(r.Findings), r.OK+r.Warnings)
	require.False(t, r.At.IsZero())
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.ID == "durability" })
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, doctor.Warning, r.Findings[i].Level)
	require.NotEmpty(t, r.Findings[i].Advice)
	require.Equal(t, false, r.Findings[i].Facts["checked"])

	_, err = examine(t, "--strict")
	require.ErrorContains(t, err, "findings are warnings")
	require.Zero(t, dev.stop(t), dev.err)
}

func TestDoctorUsage(t *testing.T) {
	for text, args := range map[string][]string{
		"role: want one of":       {"--role", "king"},
		"timeout: want at least":  {"--timeout", "1ms"},
		"monitor: want the http:": {"--monitor", "127.0.0.1:8222"},
	} {
		_, err := examine(t, args...)
		require.ErrorContains(t, err, text)
		require.True(t, isUsage(err))
	}
}

func TestDoctorWithoutAServerShowsNoPassword(t *testing.T) {
	t.Setenv("JETCREW_URL", "nats://u:hunter2@127.0.0.1:1")
	_, err := examine(t)
	require.ErrorContains(t, err, "127.0.0.1:1")
	require.NotContains(t, err.Error(), "hunter2")

	t.Setenv("JETCREW_URL", "")
	t.Setenv("JETCREW_CONTEXT", "no-such-context")
	_, err = examine(t)
	require.ErrorContains(t, err, `NATS context "no-such-context"`, "what cannot be connected with is told as by all commands")
}

func TestDoctorHelpNamesTheRoles(t *testing.T) {
	help := (&app{}).newDoctor().Long
	for _, role := range doctor.Roles() {
		require.True(t, strings.Contains(help, role), role)
	}
}
