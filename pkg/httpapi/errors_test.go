package httpapi

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/scheduler"
)

// TestEveryErrorHasAProblem holds the table of errors to those that the packages have.
func TestEveryErrorHasAProblem(t *testing.T) {
	type want struct {
		err    error
		status int
		code   Code
	}
	wanted := map[string]want{
		"job.ErrNotFound": {job.ErrNotFound, 404, CodeNotFound}, "job.ErrNoQueue": {job.ErrNoQueue, 404, CodeNotFound},
		"job.ErrAmbiguous": {&job.AmbiguousError{}, 409, CodeAmbiguous}, "job.ErrConflict": {job.ErrConflict, 409, CodeUnchanged},
		"job.ErrNotRequeuable": {job.ErrNotRequeuable, 409, CodeNotRequeuable}, "job.ErrQueueInUse": {job.ErrQueueInUse, 409, CodeInUse},
		"job.ErrTooLarge": {job.ErrTooLarge, 413, CodeTooLarge}, "job.ErrUnknown": {job.ErrUnknown, 503, CodeOutcomeUnknown},
		"scheduler.ErrNotFound": {scheduler.ErrNotFound, 404, CodeNotFound}, "scheduler.ErrOwned": {scheduler.ErrOwned, 409, CodeOwned},
		"scheduler.ErrBusy": {scheduler.ErrBusy, 503, CodeBusy}, "scheduler.ErrUnreadable": {scheduler.ErrUnreadable, 409, CodeUnreadable},
		"kv.ErrKey": {kv.ErrKey, 422, CodeBadField}, "kv.ErrTTL": {kv.ErrTTL, 422, CodeBadField}, "kv.ErrTooLarge": {kv.ErrTooLarge, 413, CodeTooLarge},
		"kv.ErrNotInteger": {kv.ErrNotInteger, 409, CodeNotInteger}, "kv.ErrUnknown": {kv.ErrUnknown, 503, CodeOutcomeUnknown},
		"job.ErrFull": {job.ErrFull, 503, CodeUnavailable},
		"kv.ErrFull":  {kv.ErrFull, 503, CodeUnavailable}, "kvbucket.ErrClosed": {kvbucket.ErrClosed, 503, CodeUnavailable},
	}
	// Those of handlers and workers, which no request meets, and those of an operator's mistake, which the log tells.
	for name, err := range map[string]error{
		"job.ErrLeaseLost": job.ErrLeaseLost, "job.ErrCancelRequested": job.ErrCancelRequested, "job.ErrTimeout": job.ErrTimeout,
		"job.ErrDeadline": job.ErrDeadline, "job.ErrShutdown": job.ErrShutdown, "job.ErrClosed": job.ErrClosed,
		"scheduler.ErrNoLeader": scheduler.ErrNoLeader, "kv.ErrNoWatch": kv.ErrNoWatch, "kvbucket.ErrServerTooOld": kvbucket.ErrServerTooOld,
		"kvbucket.ErrNoJetStream": kvbucket.ErrNoJetStream, "kvbucket.ErrSettings": kvbucket.ErrSettings,
	} {
		wanted[name] = want{err, 500, CodeInternal}
	}
	for name, w := range wanted {
		p := explain(t.Context(), fmt.Errorf("canary: %w", w.err))
		require.Equal(t, w.status, p.Status, name)
		require.Equal(t, w.code, p.Code, name)
		require.NotContains(t, p.Detail, "canary", name)
	}
	p := explain(t.Context(), job.Refuse(job.CodeOverCapacity, "busy"))
	require.Equal(t, CodeBusy, p.Code)

	found := 0
	for name, dir := range map[string]string{"job": "../job", "scheduler": "../../scheduler", "kv": "../kv", "kvbucket": "../../kvbucket"} {
		for _, err := range sentinels(t, dir) {
			found++
			require.Contains(t, wanted, name+"."+err, "what is a caller told?")
		}
	}
	require.Equal(t, len(wanted), found)
}

// sentinels are the errors that a package declares.
func sentinels(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var out []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != gotoken.VAR {
				continue
			}
			for _, s := range g.Specs {
				for _, id := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(id.Name, "Err") {
						out = append(out, id.Name)
					}
				}
			}
		}
	}
	return out
}
