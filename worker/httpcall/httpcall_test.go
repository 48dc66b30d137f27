package httpcall

import (
	"context"
	"encoding/base64"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func aJob() *job.Job {
	return &job.Job{
		ID: "1", Space: "acme", Queue: "mail", Type: "notify", Environment: "main", Trigger: job.TriggerCall, Attempts: 2, MaxAttempts: 3,
		CreatedAt: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC),
	}
}

// receive makes a caller of a receiver on loopback.
func receive(t *testing.T, h http.HandlerFunc, change ...func(*Config)) *Caller {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return caller(t, srv.URL+"/hook?key=canary", change...)
}

func caller(t *testing.T, url string, change ...func(*Config)) *Caller {
	t.Helper()
	cfg := Config{URL: url, Secret: secret, AllowPrivate: true}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func (c *Caller) send(ctx context.Context, t *testing.T) (string, error) {
	t.Helper()
	v, err := c.Run(ctx, aJob(), jsontext.Value(`{"to":"ann"}`))
	if err != nil {
		require.NotContains(t, err.Error(), "canary", "the query of the URL")
		return "", err
	}
	if v == nil {
		return "", nil
	}
	b, err := job.Encode(v)
	require.NoError(t, err)
	return string(b), nil
}

func TestAReceiverCanVerifyWhatItGets(t *testing.T) {
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	type message struct{ id, body, query string }
	var got []message
	c := receive(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v %v", r.Method, r.Header, err)
		}
		got = append(got, message{r.Header.Get("webhook-id"), string(body), r.URL.RawQuery})
	})
	_, err = c.send(t.Context(), t)
	require.NoError(t, err)
	_, err = c.Run(t.Context(), aJob(), nil)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"1","space":"acme","queue":"mail","type":"notify","environment":"main","trigger":"call","attempt":2,
		"maxAttempts":3,"createdAt":"2026-03-04T12:00:00.000Z","input":{"to":"ann"}}`, got[0].body)
	require.Contains(t, got[1].body, `"input":{}`)
	require.Equal(t, "key=canary", got[0].query)
	require.Equal(t, got[0].id, got[1].id, "the same for all attempts")
	require.Regexp(t, `^job_[0-9a-f]{32}$`, got[0].id)
}

func TestTheTraceIsContinued(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var got []http.Header
	c := receive(t, func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header) })
	j := aJob()
	for _, j.Trace = range []job.Trace{{}, {Parent: parent}, {Parent: parent, State: "vendor=some"}} {
		_, err := c.Run(t.Context(), j, nil)
		require.NoError(t, err)
	}
	for i, want := range [][2]string{{"", ""}, {parent, ""}, {parent, "vendor=some"}} {
		require.Equal(t, want, [2]string{got[i].Get("traceparent"), got[i].Get("tracestate")})
	}
}

func TestTheMessageIDIsTheJobs(t *testing.T) {
	first := MessageID(aJob())
	retried := aJob()
	retried.Attempts, retried.UpdatedAt, retried.WorkerID = 3, time.Now(), "w"
	require.Equal(t, first, MessageID(retried))
	for _, change := range []func(*job.Job){
		func(j *job.Job) { j.ID = "2" },
		func(j *job.Job) { j.Space = "other" },
		func(j *job.Job) { j.Queue = "other" },
		func(j *job.Job) { j.CreatedAt = j.CreatedAt.Add(time.Millisecond) },
		func(j *job.Job) { j.Queue, j.Space = "mai", "lacme" },
	} {
		other := aJob()
		change(other)
		require.NotEqual(t, first, MessageID(other))
	}
}

func TestAnUnsignedRequestHasNoSignature(t *testing.T) {
	c := receive(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("webhook-signature") != "" || r.Header.Get("webhook-id") == "" {
			t.Error(r.Header)
		}
	}, func(cfg *Config) { cfg.Secret, cfg.Unsigned = "", true })
	_, err := c.send(t.Context(), t)
	require.NoError(t, err)
}

func TestTheResultIsTheBody(t *testing.T) {
	for _, c := range []struct {
		code             int
		mime, body, want string
	}{
		{200, "application/json", `{"a": 1}` + "\n", `{"a":1}`},
		{201, "application/problem+json; charset=utf-8", `[1]`, `[1]`},
		{200, "application/json", `{"a":1,"a":2}`, `"{\"a\":1,\"a\":2}"`},
		{200, "text/plain", `{"a":1}`, `"{\"a\":1}"`},
		{200, "text/html", `<html>hello</html>`, `"<html>hello</html>"`},
		{200, "application/octet-stream", "\xff", `"` + "\uFFFD" + `"`},
		{200, "application/json", "  ", ``},
		{202, "", "", ``},
		{204, "", "", ``},
	} {
		got, err := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.mime)
			w.WriteHeader(c.code)
			_, _ = io.WriteString(w, c.body)
		}).send(t.Context(), t)
		require.NoError(t, err)
		if c.want == "" {
			require.Empty(t, got)
		} else {
			require.JSONEq(t, c.want, got)
		}
	}
}

func TestStatusCodesSayWhatBecomesOfTheJob(t *testing.T) {
	type header = map[string]string
	snooze := func(d time.Duration) func(error) {
		return func(err error) {
			var s *job.SnoozeError
			require.ErrorAs(t, err, &s)
			require.Equal(t, d, s.Delay)
		}
	}
	retry := func(d time.Duration) func(error) {
		return func(err error) {
			var r *job.RetryError
			require.ErrorAs(t, err, &r)
			require.Equal(t, d, r.Delay)
		}
	}
	notNow := func(err error) {
		var r *job.Refusal
		require.ErrorAs(t, err, &r)
		require.True(t, r.Code.NotNow())
	}
	plain := func(text string) func(error) {
		return func(err error) { require.Equal(t, text, err.Error()[strings.Index(err.Error(), " ")+1:]) }
	}
	date := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		code   int
		header header
		body   string
		check  func(error)
	}{
		{429, header{"Retry-After": "17"}, "", snooze(17 * time.Second)},
		{503, header{"Retry-After": "17"}, "", snooze(17 * time.Second)},
		{503, header{"Retry-After": "0"}, "", snooze(time.Second)},
		{503, header{"Retry-After": "99999999999999999"}, "", snooze(time.Hour)},
		{503, header{"Date": date.Format(http.TimeFormat), "Retry-After": date.Add(90 * time.Second).Format(http.TimeFormat)}, "", snooze(90 * time.Second)},
		{503, header{"Retry-After": date.Format(http.TimeFormat)}, "", snooze(time.Second)},
		{503, header{"Retry-After": "soon"}, "", notNow},
		{429, nil, "", notNow},
		{503, nil, "", notNow},
		{410, nil, "", func(err error) { require.ErrorAs(t, err, new(*job.GiveUpError)) }},
		{500, header{"Retry-After": "60"}, "", retry(time.Minute)},
		{500, header{"Content-Type": "text/plain"}, "password=canary no disk", plain("answered 500 Internal Server Error: password=[redacted] no disk")},
		{500, header{"Content-Type": "text/html"}, "<html>canary</html>", plain("answered 500 Internal Server Error with an HTML page")},
		{500, header{"Content-Type": "image/png"}, "canary", plain("answered 500 Internal Server Error")},
		{400, header{"Content-Type": "application/json"}, `{"error":"no such user"}`, plain(`answered 400 Bad Request: {"error":"no such user"}`)},
		{408, nil, "", plain("answered 408 Request Timeout")},
		{404, nil, "", plain("answered 404 Not Found")},
		{599, nil, "", plain("answered 599")},
		{302, header{"Location": "https://elsewhere.example/a?token=canary"}, "", plain("answered 302 Found (to elsewhere.example): redirects are not followed")},
		{307, header{"Location": "/canary"}, "", plain("answered 307 Temporary Redirect: redirects are not followed")},
		{304, nil, "", plain("answered 304 Not Modified: redirects are not followed")},
	} {
		_, err := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			for k, v := range c.header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(c.code)
			_, _ = io.WriteString(w, c.body)
		}).send(t.Context(), t)
		require.Error(t, err)
		c.check(err)
	}
}

func TestALongErrorIsCut(t *testing.T) {
	_, err := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(500)
		_, _ = io.WriteString(w, strings.Repeat("é", 1<<20))
	}).send(t.Context(), t)
	require.Less(t, len(err.Error()), job.MaxError)
}

func TestALongAnswerIsNotReadWholeAndItsResultIsRefused(t *testing.T) {
	const size = 10 << 20
	c := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size))
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := c.send(t.Context(), t)
	runtime.ReadMemStats(&after)
	require.ErrorAs(t, err, new(*job.GiveUpError))
	require.ErrorContains(t, err, "the work may be done")
	require.ErrorContains(t, err, "more than the 262144 bytes")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size+8<<20), "the receiver's bytes, and few more")
	got, err := receive(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "12345") },
		func(cfg *Config) { cfg.MaxResponse = 5 }).send(t.Context(), t)
	require.NoError(t, err)
	require.Equal(t, `"12345"`, got)
}

func TestAnAnswerThatBreaksOffIsTriedAgain(t *testing.T) {
	_, err := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}).send(t.Context(), t)
	require.ErrorContains(t, err, "the work may be done, but its result broke off")
}

func TestAReceiverThatHangsIsLeftWhenTheContextEnds(t *testing.T) {
	for name, begin := range map[string]string{"before its answer": "", "in its answer": "half"} {
		t.Run(name, func(t *testing.T) {
			reached, done := make(chan struct{}), make(chan struct{})
			c := receive(t, func(w http.ResponseWriter, r *http.Request) {
				if begin != "" {
					_, _ = io.WriteString(w, begin)
					_ = http.NewResponseController(w).Flush()
				}
				_, _ = io.Copy(io.Discard, r.Body)
				close(reached)
				<-r.Context().Done()
				close(done)
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-reached
				cancel(job.ErrTimeout)
			}()
			_, err := c.send(ctx, t)
			require.ErrorContains(t, err, "timed out")
			require.ErrorContains(t, err, c.Host())
			<-done
			_, err = c.send(ctx, t)
			require.ErrorIs(t, err, job.ErrTimeout, "nothing is sent for a job that has ended")
		})
	}
}

func TestAReceiverThatCannotBeConnectedToCostsNoAttempt(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	_, err = caller(t, "http://"+ln.Addr().String()).send(t.Context(), t)
	var r *job.Refusal
	require.ErrorAs(t, err, &r)
	require.True(t, r.Code.NotNow())
	require.ErrorContains(t, err, "connection refused")

	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer srv.Close()
	_, err = caller(t, srv.URL).send(t.Context(), t)
	require.ErrorContains(t, err, "no answer from")
	require.NotErrorAs(t, err, &r, "it was reached, and may have begun")
}

func TestCertificatesAreVerified(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	_, err := caller(t, srv.URL).send(t.Context(), t)
	require.ErrorContains(t, err, "certificate")
	c := caller(t, srv.URL, func(cfg *Config) {
		cfg.RootCAs = srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	})
	require.True(t, c.Encrypted())
	got, err := c.send(t.Context(), t)
	require.NoError(t, err)
	require.Equal(t, `"HTTP/2.0"`, got)
}

func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	c := receive(t, func(http.ResponseWriter, *http.Request) {})
	require.Nil(t, c.transport.Proxy)
	_, err := c.send(t.Context(), t)
	require.NoError(t, err)
	require.NotNil(t, caller(t, "http://example.com", func(cfg *Config) { cfg.UseProxy = true }).transport.Proxy)
}

// A name that was public when it was looked at, and leads inside when it is used, is refused where it is used.
func TestANameThatLeadsInsideIsRefusedWhenItIsConnectedTo(t *testing.T) {
	var calls, asked atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer inside.Close()
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	require.NoError(t, err)

	resolver := answering(t, func() [4]byte { asked.Add(1); return [4]byte{127, 0, 0, 1} })
	c := caller(t, "http://rebinding.example:"+port, func(cfg *Config) { cfg.AllowPrivate, cfg.Resolver = false, resolver })
	require.Zero(t, asked.Load(), "nothing is decided by what the name resolves to now")
	_, err = c.send(t.Context(), t)
	require.ErrorIs(t, err, ErrPrivateAddress)
	require.Positive(t, asked.Load())
	require.Zero(t, calls.Load())

	_, err = caller(t, "http://rebinding.example:"+port, func(cfg *Config) { cfg.Resolver = resolver }).send(t.Context(), t)
	require.NoError(t, err)
	require.EqualValues(t, 1, calls.Load())
}

// answering is a resolver by which every name has the address that next answers.
func answering(t *testing.T, next func() [4]byte) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) == 0 {
				continue
			}
			q := m.Questions[0]
			reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions[:1]}
			if q.Type == dnsmessage.TypeA {
				reply.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body:   &dnsmessage.AResource{A: next()},
				}}
			}
			if b, err := reply.Pack(); err == nil {
				_, _ = conn.WriteTo(b, from)
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-served })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func TestAddressesThatAreNotPublicAreRefused(t *testing.T) {
	for _, a := range []string{
		"0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.8.8.8", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"198.18.0.1", "203.0.113.7", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1",
		"2001::1", "2001:db8::1", "2002:7f00:1::", "fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "100::1",
	} {
		require.ErrorIs(t, public(netip.MustParseAddr(a)), ErrPrivateAddress, a)
	}
	for _, a := range []string{"1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808"} {
		require.NoError(t, public(netip.MustParseAddr(a)), a)
	}
	require.ErrorIs(t, onlyPublic(t.Context(), "tcp", "no address", nil), ErrPrivateAddress)
}

func TestAMistakeShowsBeforeAJobIsTaken(t *testing.T) {
	key := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{URL: "ftp://h", Secret: secret}, "the URL must begin with http:// or https://"},
		{Config{URL: "http://", Secret: secret}, "the URL has no host"},
		{Config{URL: "http://canary\x7f", Secret: secret}, "the URL cannot be read"},
		{Config{URL: "https://u:canary@h/", Secret: secret}, "the URL of h has a user part: requests are signed instead"},
		{Config{URL: "https://h/#canary", Secret: secret}, "the URL of h has a fragment"},
		{Config{URL: "https://h"}, "there is no secret to sign with"},
		{Config{URL: "https://h", Secret: secret, Unsigned: true}, "give a secret, or ask for it to be unsigned, not both"},
		{Config{URL: "https://h", Secret: "canary"}, "the secret does not begin with whsec_"},
		{Config{URL: "https://h", Secret: "whsec_canary!"}, "what follows whsec_ in the secret is no base64"},
		{Config{URL: "https://h", Secret: "whsec_"}, "the secret's key has 0 bytes, 24 to 64 are allowed"},
		{Config{URL: "https://h", Secret: key(23)}, "the secret's key has 23 bytes, 24 to 64 are allowed"},
		{Config{URL: "https://h", Secret: key(65)}, "the secret's key has 65 bytes, 24 to 64 are allowed"},
		{Config{URL: "https://h", Secret: key(24), UseProxy: true}, "a proxy connects to what it likes, so private addresses cannot be refused: they have to be allowed"},
		{Config{URL: "http://127.0.0.1:80", Secret: secret}, "private addresses are refused: 127.0.0.1"},
		{Config{URL: "http://[::ffff:10.0.0.1]/", Secret: secret}, "private addresses are refused: ::ffff:10.0.0.1"},
		{Config{URL: "https://h", Secret: secret, MaxResponse: -1}, "the longest result must be 1 to 16777216 bytes, not -1"},
	} {
		_, err := New(c.cfg)
		require.EqualError(t, err, c.want)
	}
}
