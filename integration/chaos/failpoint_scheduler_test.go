//go:build failpoints

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

const (
	roleScheduler = "scheduler"
	schedulerEnv  = "JETCREW_CHAOS_SCHEDULER"
	shortTerm     = 2 * time.Second
)

func init() { roles = append(roles, natstest.Role(roleScheduler, runScheduler)) }

// schedulerConfig is what a scheduler process is told.
type schedulerConfig struct {
	ID  string
	URL string
	TTL time.Duration
}

// runScheduler is a scheduler process: it takes part in the election until SIGTERM, and fires while it leads.
func runScheduler() int {
	var cfg schedulerConfig
	if err := json.Unmarshal([]byte(os.Getenv(schedulerEnv)), &cfg); err != nil {
		return complain(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	nc, err := connect(cfg.URL)
	if err != nil {
		return complain(err)
	}
	defer nc.Close()
	log := zerolog.New(os.Stdout).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	jobs, err := streams.Open(ctx, nc, streams.Config{Logger: log})
	if err != nil {
		return complain(err)
	}
	defer jobs.Close()
	store, err := scheduler.OpenStore(ctx, nc, scheduler.StoreConfig{Clock: jobs, Logger: log})
	if err != nil {
		return complain(err)
	}
	e, err := scheduler.NewElection(ctx, nc, scheduler.Config{ID: cfg.ID, TTL: cfg.TTL, Logger: log})
	if err != nil {
		return complain(err)
	}
	e.Run(ctx, scheduler.NewFirer(store, jobs, scheduler.FirerConfig{Logger: log}).Run)
	return 0
}

func TestFailpointOfScheduler(t *testing.T) {
	t.Parallel()
	for place, n := range map[string]int{
		failpoint.AfterFire: 25, // of twenty in each second
		failpoint.AfterTerm: 2,
	} {
		eachAction(t, place, func(t *testing.T, action string) {
			c := failpointCrew(t)
			steady := c.work("steady")
			s := c.schedules(20)
			victims := 1
			if action == dies {
				victims = 2
			}
			var hands []*hand
			for i := range victims {
				v := s.start(fmt.Sprintf("victim-%d", i), armed(place, action, n))
				v.says(hit(place, action))
				c.faulted()
				switch action {
				case dies:
					require.Equal(t, -1, v.Wait(patience), "exit code of %s", v.id)
				case freezes:
					heir := s.start("heir")
					heir.says(`"leading"`)
					c.freeze(v.Proc)
					hands = append(hands, v, heir)
				default:
					hands = append(hands, v)
				}
			}
			hands = append(hands, s.start("last"))
			s.newer()
			c.dismiss(hands...)
			s.account()
			c.finish()
			c.check(rules{})
			c.dismiss(steady)
		})
	}
}

// schedules are some that fire each second, whatever was missed.
type schedules struct {
	*crew
	store    *scheduler.Store
	promised []*scheduler.Schedule
}

func (c *crew) schedules(n int) *schedules {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	store, err := scheduler.OpenStore(ctx, c.js.Conn(), scheduler.StoreConfig{Clock: c.producers.store})
	require.NoError(c.t, err)
	s := &schedules{crew: c, store: store}
	for i := range n {
		p, _, err := store.Put(ctx, "", scheduler.Every(time.Second, scheduler.Spec{
			Name: fmt.Sprint("s", i), Type: jobType, Queue: c.cfg.Queue, MaxAttempts: 20, Input: input{}.json(),
			MissedPolicy: scheduler.MissedEach, MissedLimit: scheduler.MaxMissedLimit,
		}))
		require.NoError(c.t, err)
		s.promised = append(s.promised, p)
	}
	return s
}

// start starts a scheduler process.
func (s *schedules) start(id string, env ...string) *hand {
	s.t.Helper()
	text, err := json.Marshal(schedulerConfig{ID: id, URL: s.cfg.URL, TTL: shortTerm})
	require.NoError(s.t, err)
	return &hand{Proc: natstest.StartRole(s.t, roleScheduler, append(env, schedulerEnv+"="+string(text))...), id: id, crew: s.crew}
}

// newer waits until each schedule has fired an instant that was promised for a while from now.
func (s *schedules) newer() {
	s.t.Helper()
	then := s.producers.store.Now().Add(2 * time.Second)
	for _, p := range s.promised {
		s.until(func() error {
			now, err := s.get(p)
			if err == nil && now.LastFireAt.Before(then) {
				err = fmt.Errorf("%s has fired last at %s, want %s or later", p.Name, now.LastFireAt, then)
			}
			return err
		})
	}
}

// account expects a job for each instant from the first that was promised to the one that is promised now. Nobody fires any
// more; who was stopped may have made the job of the last promise already, and not have moved it on.
func (s *schedules) account() {
	s.t.Helper()
	for _, p := range s.promised {
		now, err := s.get(p)
		require.NoError(s.t, err)
		require.Empty(s.t, now.Error, p.Name)
		require.Zero(s.t, now.Missed, p.Name)
		for at := p.NextRunAt; !at.After(now.NextRunAt); at = at.Add(time.Second) {
			id := fmt.Sprintf("%s@%d", p.Name, at.Unix())
			if at.Equal(now.NextRunAt) {
				if _, err := s.job(id); errors.Is(err, job.ErrNotFound) {
					continue
				}
			}
			s.expect(job.Spec{ID: id})
		}
	}
}

func (s *schedules) get(p *scheduler.Schedule) (*scheduler.Schedule, error) {
	ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
	defer cancel()
	return s.store.Get(ctx, p.Space, p.Name)
}
