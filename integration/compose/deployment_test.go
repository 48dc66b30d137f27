package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// deployment is docker-compose.yml as processes.
type deployment struct {
	*cluster
	file   file
	bin    string
	api    string              // where it is served
	checks map[string][]string // health checks by service
}

// run starts a service of ours with its command and its environment, moved to where the cluster is here.
func (d *deployment) run(name string) *process {
	d.t.Helper()
	s := d.file.Services[name]
	env := s.environment(d.t, d.secrets.dotEnv)
	env["JETCREW_URL"] = d.urls()
	args := slices.Clone(s.Command)
	if i := slices.Index(args, "--listen"); i >= 0 {
		address := local(reservePort(d.t))
		host, _, _ := strings.Cut(args[i+1], ":")
		args[i+1] = strings.Replace(address, "127.0.0.1", host, 1)
		check := slices.Clone(s.Healthcheck.Test[2:])
		check[len(check)-1] = strings.Replace(check[len(check)-1], "127.0.0.1:8080", address, 1)
		require.Contains(d.t, check[len(check)-1], address, "the health check asks where the service listens")
		d.checks[name] = check
		if name == "api" {
			d.api = "http://" + address
		}
	}
	return start(d.t, d.bin, name, env, args...)
}

// waitHealthy waits until a service's health check succeeds.
func (d *deployment) waitHealthy(name string) {
	d.t.Helper()
	natstest.Eventually(d.t, patience, func() error {
		p := start(d.t, d.bin, name+" health", nil, d.checks[name]...)
		if code := p.ends(); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, p.out.String())
		}
		return nil
	}, name)
}

// enqueue puts a job in over HTTP, and does what a caller has to do when it gets no answer: ask again.
func (d *deployment) enqueue(id string) {
	d.t.Helper()
	body := fmt.Sprintf(`{"type":"echo","id":%q,"input":{"id":%q}}`, id, id)
	natstest.Eventually(d.t, patience, func() error {
		req, err := http.NewRequest(http.MethodPost, d.api+"/v1/jobs", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		status, answer, err := do(req, d.secrets.token)
		if err == nil && status != http.StatusCreated && status != http.StatusOK {
			err = fmt.Errorf("%d: %s", status, answer)
		}
		return err
	}, "enqueue", id)
}

// succeeds waits until a job's record over HTTP says that it succeeded.
func (d *deployment) succeeds(id string) {
	d.t.Helper()
	natstest.Eventually(d.t, patience, func() error {
		status, body, err := get(d.api+"/v1/jobs/default/"+id, d.secrets.token)
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("%d: %s: %w", status, body, err)
		}
		var record struct{ Status, Error string }
		if err := json.Unmarshal([]byte(body), &record); err != nil {
			return err
		}
		if record.Status != "succeeded" {
			return fmt.Errorf("it is %s: %s", record.Status, record.Error)
		}
		return nil
	}, "job", id)
}

func TestTheDeploymentWorksAndOutlivesANode(t *testing.T) {
	if testing.Short() {
		t.Skip("starts seven processes")
	}
	f := readFile(t)
	d := &deployment{cluster: startCluster(t, f), file: f, bin: buildBinary(t), checks: make(map[string][]string)}

	for range 2 { // again with everything there
		setup := d.run("setup")
		require.Equal(t, 0, setup.ends(), setup.out.String())
		require.Contains(t, setup.out.String(), "ready")
	}
	js, err := jetstream.New(d.connect("admin"))
	require.NoError(t, err)
	for _, stream := range []string{"JETCREW_JOBS", "KV_JETCREW_WORKERS", "KV_JETCREW_LEADER", "KV_JETCREW_KV", "KV_JETCREW_SCHEDULES"} {
		s, err := js.Stream(t.Context(), stream)
		require.NoError(t, err)
		require.Equal(t, 3, s.CachedInfo().Config.Replicas, stream)
		require.Equal(t, jetstream.FileStorage, s.CachedInfo().Config.Storage, stream)
	}

	scheduler, worker, api := d.run("scheduler"), d.run("worker"), d.run("api")
	d.waitHealthy("scheduler")
	d.waitHealthy("api")
	scheduler.says("leading")
	d.enqueue("first")
	d.succeeds("first")

	// It takes its time to give up.
	denied := d.as("producer", "enqueue", "echo", "--id", "foreign", "--space", "acme")
	t.Run("keys", func(t *testing.T) { testKeys(t, d) })
	t.Run("roles", func(t *testing.T) { testRoles(t, d) })
	t.Run("schedules", func(t *testing.T) { testSchedules(t, d) })

	// The worst node to lose is the one that leads the stream.
	s, err := js.Stream(t.Context(), "JETCREW_JOBS")
	require.NoError(t, err)
	lost := s.CachedInfo().Cluster.Leader
	require.Contains(t, d.nodes, lost)
	for i := range 10 {
		d.enqueue(fmt.Sprintf("before-%d", i))
	}
	d.nodes[lost].Kill()
	for i := range 20 {
		d.enqueue(fmt.Sprintf("after-%d", i))
	}
	for i := range 10 {
		d.succeeds(fmt.Sprintf("before-%d", i))
	}
	for i := range 20 {
		d.succeeds(fmt.Sprintf("after-%d", i))
	}
	d.nodes[lost].start(t)
	d.cluster.waitHealthy(lost)
	natstest.Eventually(t, patience, func() error { return allCurrent(js) }, "after", lost, "is back")

	require.Equal(t, 1, denied.ends())
	require.Contains(t, denied.out.String(), "does not permit", "the reason is said")
	require.Contains(t, denied.out.String(), "jetcrew.job.ready.default.acme.foreign")
	p := d.as("readonly", "job", "get", "foreign", "--space", "acme")
	require.Equal(t, 3, p.ends(), "it is not there: %s", p.out.String())

	for _, p := range []*process{worker, scheduler, api} {
		require.Equal(t, 0, p.stop(), p.name)
		for name, secret := range d.secrets.dotEnv {
			require.NotContains(t, p.out.String(), secret, "%s shows %s", p.name, name)
		}
		require.NotContains(t, p.out.String(), d.secrets.token, p.name)
	}
	require.Contains(t, scheduler.out.String(), "leading no more")
}

// allCurrent reports whether every replica of the jobs has caught up.
func allCurrent(js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, "JETCREW_JOBS")
	if err != nil {
		return err
	}
	for _, r := range s.CachedInfo().Cluster.Replicas {
		if !r.Current || r.Offline {
			return fmt.Errorf("%s is not current", r.Name)
		}
	}
	return nil
}

// as runs a command of ours as a user of accounts.conf.
func (d *deployment) as(user string, args ...string) *process {
	d.t.Helper()
	env := map[string]string{
		"JETCREW_URL": d.urls(), "JETCREW_USER": user, "JETCREW_PASSWORD": d.password(user), "JETCREW_MANAGE": "verify",
	}
	if user != "admin" {
		env["JETCREW_INBOX_PREFIX"] = "_INBOX_" + user
	}
	return start(d.t, d.bin, user, env, args...)
}

// role is what a user of accounts.conf may do, beyond what the services above have shown, and what not.
type role struct {
	publish   []string
	no        []string
	subscribe []string
	deaf      []string
}

// testRoles tries the permissions both ways.
func testRoles(t *testing.T, d *deployment) {
	manage := []string{
		"$JS.API.STREAM.CREATE.OTHER", "$JS.API.STREAM.UPDATE.JETCREW_JOBS", "$JS.API.STREAM.DELETE.JETCREW_JOBS",
		"$JS.API.STREAM.PURGE.JETCREW_JOBS", "$JS.API.STREAM.SNAPSHOT.JETCREW_JOBS", "$JS.API.STREAM.DELETE.KV_JETCREW_WORKERS",
		"$JS.API.CONSUMER.DURABLE.CREATE.JETCREW_JOBS.other", "$JS.API.CONSUMER.CREATE.KV_JETCREW_WORKERS.other",
		"$SYS.REQ.SERVER.PING", "elsewhere",
	}
	manage = append(manage, manageKeys...)
	queues := []string{
		"$JS.API.CONSUMER.CREATE.JETCREW_JOBS.other", "$JS.API.CONSUMER.DELETE.JETCREW_JOBS.other",
		"$JS.API.CONSUMER.PAUSE.JETCREW_JOBS.other",
	}
	pull := "$JS.API.CONSUMER.MSG.NEXT.JETCREW_JOBS.ready-default"
	ack := "$JS.ACK.JETCREW_JOBS.ready-default.1.1.1.1.1"
	remove := "$JS.API.STREAM.MSG.DELETE.JETCREW_JOBS"
	end := "jetcrew.job.succeeded.default.default.probe"
	leader := "$KV.JETCREW_LEADER.leader"
	presence := "$KV.JETCREW_WORKERS.probe.default"
	writeKey := "$KV.JETCREW_KV.v.default.probe"
	listKeys := "$JS.API.CONSUMER.CREATE.KV_JETCREW_KV.probe.$KV.JETCREW_KV.v.default.>"
	readKey := "$JS.API.DIRECT.GET.KV_JETCREW_KV." + writeKey
	roles := map[string]role{
		"worker": {
			no:        []string{leader, "$JS.API.STREAM.INFO.KV_JETCREW_LEADER", "$JS.API.STREAM.MSG.DELETE.KV_JETCREW_WORKERS"},
			subscribe: []string{"_INBOX_worker.x", "jetcrew.control.cancel.default.>", "jetcrew.control.queue.*"},
			deaf:      []string{"_INBOX_api.>", "_INBOX.>", ">", "jetcrew.job.>", "jetcrew.event.>"},
		},
		"scheduler": {
			publish:   []string{"$JS.API.STREAM.INFO.KV_JETCREW_LEADER"},
			no:        []string{pull, ack, presence, "$KV.JETCREW_LEADER.other", writeKey, listKeys, readKey},
			subscribe: []string{"_INBOX_scheduler.x"},
			deaf:      []string{"_INBOX_worker.>", ">", "jetcrew.job.>"},
		},
		"api": {
			no:        []string{pull, ack, remove, end, leader, presence, "jetcrew.job.running.default.default.probe"},
			subscribe: []string{"_INBOX_api.x"},
			deaf:      []string{"_INBOX_worker.>", ">", "jetcrew.job.>"},
		},
		"operator": {
			publish:   append([]string{"$JS.API.CONSUMER.LIST.JETCREW_JOBS", "jetcrew.control.cancel.default.default.probe"}, queues...),
			no:        []string{pull, ack, leader, presence, "jetcrew.wake.default.default.probe", writeKey, listKeys, readKey},
			subscribe: []string{"_INBOX_operator.x", "jetcrew.event.>"},
			deaf:      []string{"_INBOX_worker.>", ">", "jetcrew.job.>"},
		},
		"producer": {
			publish: []string{"jetcrew.event.ready.default.default.probe"},
			no: []string{
				pull, ack, remove, end, leader, presence, "jetcrew.job.ready.default.acme.probe", "jetcrew.job.due.default.acme.probe",
				"jetcrew.alarm.default.acme.probe.x", "jetcrew.job.ready.default.default.probe.more", "jetcrew.wake.default.default.probe",
				writeKey, listKeys, readKey,
			},
			subscribe: []string{"_INBOX_producer.x"},
			deaf:      []string{"_INBOX_api.>", ">", "jetcrew.event.>"},
		},
		"readonly": {
			publish:   []string{"$JS.API.STREAM.NAMES", "$JS.API.CONSUMER.LIST.JETCREW_JOBS", "$JS.API.STREAM.INFO.KV_JETCREW_LEADER", readKey},
			no:        []string{pull, ack, remove, end, leader, presence, writeKey, listKeys, "jetcrew.job.ready.default.default.probe", "jetcrew.event.ready.default.default.probe"},
			subscribe: []string{"_INBOX_readonly.x", "jetcrew.event.>"},
			deaf:      []string{"_INBOX_worker.>", ">", "jetcrew.job.>"},
		},
	}
	for user, r := range roles {
		nc := d.connect(user)
		for _, subject := range r.publish {
			require.NoError(t, tryPublish(nc, subject), "%s may publish to %s", user, subject)
		}
		if user != "operator" {
			r.no = append(r.no, queues...)
		}
		for _, subject := range append(r.no, manage...) {
			require.ErrorIs(t, tryPublish(nc, subject), nats.ErrPermissionViolation, "%s may not publish to %s", user, subject)
		}
		for _, subject := range r.subscribe {
			require.NoError(t, trySubscribe(nc, subject), "%s may subscribe to %s", user, subject)
		}
		for _, subject := range r.deaf {
			require.ErrorIs(t, trySubscribe(nc, subject), nats.ErrPermissionViolation, "%s may not subscribe to %s", user, subject)
		}
	}

	_, err := nats.Connect(d.urls())
	require.ErrorIs(t, err, nats.ErrAuthorization, "without a name nobody gets in")
	_, err = nats.Connect(d.urls(), nats.UserInfo("worker", d.password("admin")))
	require.ErrorIs(t, err, nats.ErrAuthorization)
	require.NoError(t, tryPublish(d.connect("sys"), "$SYS.REQ.SERVER.PING"))
	_, err = jetStreamOf(d.connect("sys")).Stream(t.Context(), "JETCREW_JOBS")
	require.Error(t, err, "the system account has no jobs")

	p := d.as("producer", "enqueue", "echo", "--id", "produced")
	require.Equal(t, 0, p.ends(), p.out.String())
	p = d.as("producer", "enqueue", "echo", "--id", "produced")
	require.Equal(t, 0, p.ends(), p.out.String())
	require.Contains(t, p.out.String(), "exists")
	p = d.as("producer", "enqueue", "echo", "--id", "waits", "--delay", "1s")
	require.Equal(t, 0, p.ends(), p.out.String())
	d.succeeds("produced")
	d.succeeds("waits")
	p = d.as("readonly", "job", "get", "produced", "--json")
	require.Equal(t, 0, p.ends(), p.out.String())
	require.Contains(t, p.out.String(), `"succeeded"`)

	testOperator(t, d)

	s, err := jetStreamOf(d.connect("admin")).Stream(t.Context(), "JETCREW_JOBS")
	require.NoError(t, err, "after all that the stream stands")
	require.NotZero(t, s.CachedInfo().State.Msgs)
}

// testOperator does with the rights of an operator what an operator does, and has others look.
func testOperator(t *testing.T, d *deployment) {
	t.Helper()
	store := func(user string) *streams.Store {
		s, err := streams.Open(t.Context(), d.connect(user), streams.Config{Manage: streams.ManageVerify, Replicas: 3})
		require.NoError(t, err)
		t.Cleanup(s.Close)
		return s
	}
	operator := store("operator")
	limit := 7
	q, err := operator.Configure(t.Context(), "default", job.QueueSettings{
		Concurrency: &limit, Retention: map[job.Status]time.Duration{job.Dead: time.Hour},
	})
	require.NoError(t, err)
	require.Equal(t, limit, q.Concurrency)
	require.Equal(t, 1, q.Workers)
	require.NoError(t, operator.Pause(t.Context(), "default", time.Time{}))
	for _, user := range []string{"api", "readonly"} {
		s := store(user)
		all, err := s.Queues(t.Context())
		require.NoError(t, err, user)
		require.Len(t, all, 1, user)
		require.True(t, all[0].Paused, user)
		counts, err := s.Count(t.Context())
		require.NoError(t, err, user)
		require.NotZero(t, counts.Succeeded, user)
		workers, err := s.Workers(t.Context())
		require.NoError(t, err, user)
		require.Len(t, workers, 1, user)
	}
	require.NoError(t, operator.Resume(t.Context(), "default"))
	limit = 0
	_, err = operator.Configure(t.Context(), "default", job.QueueSettings{
		Concurrency: &limit, Retention: map[job.Status]time.Duration{job.Dead: job.KeepDefault},
	})
	require.NoError(t, err)
	require.ErrorIs(t, operator.DeleteQueue(t.Context(), "default"), job.ErrQueueInUse)
}

func jetStreamOf(nc *nats.Conn) jetstream.JetStream {
	js, err := jetstream.New(nc)
	if err != nil {
		panic(err)
	}
	return js
}

// tryPublish publishes nothing of meaning, and answers what the server has to say: it answers a denial before it
// answers the flush.
func tryPublish(nc *nats.Conn, subject string) error {
	before := nc.LastError()
	if err := nc.PublishRequest(subject, nc.NewInbox(), nil); err != nil {
		return err
	}
	return lastError(nc, before)
}

func trySubscribe(nc *nats.Conn, subject string) error {
	before := nc.LastError()
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		return err
	}
	err = lastError(nc, before)
	_ = sub.Unsubscribe() // a denied one is gone already
	return err
}

func lastError(nc *nats.Conn, before error) error {
	if err := nc.FlushTimeout(10 * time.Second); err != nil {
		return err
	}
	if after := nc.LastError(); after != before { //nolint:errorlint // whether it is another one
		return after
	}
	return nil
}
