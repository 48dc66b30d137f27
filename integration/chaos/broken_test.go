//go:build failpoints

package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
)

const (
	brokenEnv = "JETCREW_BROKEN"
	sceneEnv  = "JETCREW_CHAOS_SCENE"
	// found begins the line in which a scene says what its checker found.
	found = "the checker: "
	// atATime is how many scenes are played at a time: what they do most is wait.
	atATime = 5
)

// variants are the rules that can be broken, each with a scene in which that is found out. With no rule broken the
// checker has nothing to say of the very same scene.
var variants = []struct {
	rule  string
	scene func(*testing.T) *verdict
}{
	{failpoint.GuardSpeltTwoWays, cancelledAtItsEnd}, // those that take longest come first
	{failpoint.SettleUnguarded, outcomeOnItsWayForLong},
	{failpoint.NoCheckBeforeStart, ackLost},
	{failpoint.PrefetchWithoutBeats, moreThanCanBeRun},
	{failpoint.EndsWithoutFloor, ackLostWithoutRecord},
	{failpoint.ClaimsBySubject, cleanedUpLate},
	{failpoint.StillOursByAttempt, oneNameForTwo},
	{failpoint.AckBeforeSettle, workersKilled},
	{failpoint.ScheduleCarriesJob, askedAgain},
	{failpoint.RenewsWhatItFinds, leadTakenAway},
}

// TestBroken plays each scene twice, in processes of their own: as the system is, and with a rule broken, which the
// checker has to notice. It runs beside no other test, which would only take the time that the scenes count on.
func TestBroken(t *testing.T) {
	if full {
		t.Skip("has a target of its own: make chaos-broken")
	}
	turns := make(chan struct{}, atATime)
	var all sync.WaitGroup
	defer all.Wait()
	var results []func(*testing.T)
	for _, v := range variants {
		sound, broken := make(chan played, 1), make(chan played, 1)
		for _, p := range []struct {
			breaks string
			to     chan played
		}{{"", sound}, {v.rule, broken}} {
			all.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				p.to <- play(v.rule, p.breaks)
			})
		}
		results = append(results, func(t *testing.T) {
			s, b := <-sound, <-broken
			caught := "caught by"
			if b.words == "" {
				caught = "NOT CAUGHT"
			}
			fmt.Printf("broken: %-26s %-10s %s (%.1f s, sound %.1f s)\n", v.rule, caught, b.words, b.took.Seconds(), s.took.Seconds())
			require.NoError(t, s.err, "the scene with no rule broken\n%s", s.out)
			require.Empty(t, s.words, "the scene with no rule broken\n%s", s.out)
			require.NotEmpty(t, b.words, "nobody noticed that the rule was broken\n%s", b.out)
		})
	}
	for i, v := range variants {
		t.Run(v.rule, results[i])
	}
}

// played is how a scene went.
type played struct {
	words string // the first of what the checker found
	out   string
	err   error
	took  time.Duration
}

// play plays a scene in a process of its own, since all of it breaks the rule: producers and operators, too.
func play(scene, breaks string) played {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	exe, err := os.Executable()
	if err != nil {
		return played{err: err}
	}
	cmd := exec.CommandContext(ctx, exe, "-test.run=^TestScene$", "-test.v", "-test.timeout="+(2*patience).String())
	cmd.Env = append(os.Environ(), sceneEnv+"="+scene, brokenEnv+"="+breaks)
	cmd.WaitDelay = time.Second
	began := time.Now()
	out, err := cmd.CombinedOutput()
	p := played{out: string(out), err: err, took: time.Since(began)}
	for line := range strings.Lines(p.out) {
		if _, words, ok := strings.Cut(line, found); ok && p.words == "" {
			p.words = strings.TrimSpace(words)
		}
	}
	return p
}

// TestScene is one scene, for TestBroken.
func TestScene(t *testing.T) {
	name := os.Getenv(sceneEnv)
	if name == "" {
		t.Skip("played by TestBroken")
	}
	for _, v := range variants {
		if v.rule != name {
			continue
		}
		got := v.scene(t)
		t.Log(got.figures)
		for _, words := range got.said[:min(len(got.said), 20)] {
			t.Error(found + words)
		}
		return
	}
	t.Fatalf("there is no scene for %q", name)
}
