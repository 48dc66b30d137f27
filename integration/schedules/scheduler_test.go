package schedules

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

const (
	roleScheduler = "scheduler"
	schedulerEnv  = "JETCREW_SCHEDULES_SCHEDULER"
)

func TestMain(m *testing.M) { natstest.Main(m, natstest.Role(roleScheduler, runScheduler)) }

// up is what a scheduler process says that takes part in the election.
const up = "up"

// What a scheduler process says, and does to itself, right after it has enqueued jobs, before it moves their schedules on.
const (
	freezes = "freezes"
	dies    = "dies"
)

// What a test tells a scheduler process.
const (
	cutOff = syscall.SIGUSR1 // its connections are reset, and no new ones come about
	deafen = syscall.SIGHUP  // what it says reaches the server, and no answer comes
	heal   = syscall.SIGUSR2
)

// schedulerConfig is what a scheduler process is told.
type schedulerConfig struct {
	ID       string
	URL      string
	TTL      time.Duration
	Mischief string // what befalls it, once, when it fires the second time
}

// runScheduler is a scheduler process: it takes part in the election until SIGTERM, and fires while it leads.
func runScheduler() int {
	var cfg schedulerConfig
	if err := json.Unmarshal([]byte(os.Getenv(schedulerEnv)), &cfg); err != nil {
		return complain(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	faults := &natstest.FaultDialer{}
	obey(faults)
	nc, err := connect(cfg.URL, faults.Option())
	if err != nil {
		return complain(err)
	}
	defer nc.Close()
	log := zerolog.New(os.Stderr).Level(zerolog.InfoLevel).With().Timestamp().Logger()
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
	fmt.Println(up)
	e.Run(ctx, scheduler.NewFirer(store, &mischievous{Store: jobs, mischief: cfg.Mischief}, scheduler.FirerConfig{Logger: log}).Run)
	return 0
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// obey does what a test tells by signals, for as long as the process lives.
func obey(faults *natstest.FaultDialer) {
	told := make(chan os.Signal, 8)
	signal.Notify(told, cutOff, deafen, heal)
	go func() {
		for sig := range told {
			switch sig {
			case cutOff:
				faults.Refuse()
				faults.Cut()
			case deafen:
				faults.BlackholeFromServer()
			case heal:
				faults.Heal()
			}
		}
	}()
}

// connect is how everybody connects. Somebody who hears nothing notices soon.
func connect(url string, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append([]nats.Option{
		nats.Timeout(5 * time.Second),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(20*time.Millisecond, 20*time.Millisecond),
		nats.PingInterval(time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the default one prints
	}, opts...)...)
}

// mischievous are jobs whose process comes to harm when it has enqueued some.
type mischievous struct {
	*streams.Store
	mischief string
	calls    atomic.Int32
}

func (m *mischievous) EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	out, err := m.Store.EnqueueMany(ctx, specs)
	if m.mischief == "" || m.calls.Add(1) != 2 {
		return out, err
	}
	fmt.Println(m.mischief)
	sig := syscall.SIGKILL
	if m.mischief == freezes {
		sig = syscall.SIGSTOP
	}
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		panic(err)
	}
	return out, err
}
