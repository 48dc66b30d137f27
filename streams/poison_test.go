package streams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// nested is a JSON object of so many levels.
func nested(levels int) string {
	return strings.Repeat(`{"a":`, levels-1) + `{}` + strings.Repeat(`}`, levels-1)
}

// members is a JSON object of so many members.
func members(n int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		fmt.Fprintf(&b, `"k%d":%d,`, i, i)
	}
	return strings.TrimSuffix(b.String(), ",") + "}"
}

// patient is a consumer whose lease is long enough for what takes a busy machine a while.
func (n *node) patient(queue string) *consumer {
	n.t.Helper()
	c, err := n.Consume(n.t.Context(), job.ConsumerConfig{Queue: queue, WorkerID: "w", Slots: 4, Lease: time.Minute})
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c.(*consumer)
}

// What a plain producer may send by mistake or on purpose: no worker stumbles over it, none tries it again and again, and
// its bytes are kept as they came.
func TestPoisonIsSetAsideToTheByte(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.work("q", "w")
	bodies := map[string]string{
		"deep":              `{"type":"t","input":` + nested(60_000) + `}`,
		"deep-unknown":      `{"type":"t","x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
		"deep-unclosed":     strings.Repeat(`{"a":`, 100_000),
		"a-name-twice":      `{"type":"t","input":` + strings.TrimSuffix(members(50_000), "}") + `,"k0":0}}`,
		"byte-order-mark":   "\xef\xbb\xbf" + `{"type":"t"}`,
		"utf-16":            "\xff\xfe{\x00\"\x00t\x00",
		"nul-after":         `{"type":"t"}` + "\x00",
		"nul-in-a-text":     "{\"type\":\"t\x00\"}",
		"nul-as-the-type":   `{"type":"\u0000"}`,
		"half-a-surrogate":  `{"type":"t","input":{"a":"\ud800"}}`,
		"surrogates-turned": `{"type":"t","input":{"a":"\ude00\ud83d"}}`,
		"raw-surrogate":     "{\"type\":\"t\",\"input\":{\"a\":\"\xed\xa0\x80\"}}",
		"overlong":          "{\"type\":\"t\",\"input\":{\"a\":\"\xc0\x80\"}}",
		"cut-in-a-rune":     "{\"type\":\"t\",\"input\":{\"a\":\"\xf0\x9f\x98",
		"a-huge-number":     `{"type":"t","attempts":1e400}`,
		"no-number":         `{"type":"t","input":{"a":NaN}}`,
	}
	for id, body := range bodies {
		n.publish("jetcrew.job.ready.q.default."+id, body)
	}
	n.enqueue(spec("q", "good"))
	cl := claimOne(t, c)
	require.Equal(t, "good", cl.Job().ID)
	settle(t, cl, job.Succeed(nil))
	n.clean("q", len(bodies)+1)
	for id, body := range bodies {
		j := n.see(keyOf("q", id), job.Dead)
		require.Equal(t, body, string(j.Raw), id)
		require.Contains(t, j.Error, "set aside: ", id)
		require.Zero(t, j.Attempts, "%s was tried", id)
	}
}

// Texts and numbers that other programs mangle come to the handler, and stand in the record, as they were put in: each
// name and text to the byte, whether it was written with escapes or without, and each number digit by digit.
func TestOddInputsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.patient("q")
	for name, input := range map[string]string{
		"NUL":                   `{"a":"x\u0000y"}`,
		"a byte order mark":     `{"a":"\ufeff"}`,
		"a raw byte order mark": "{\"a\":\"\ufeff\"}",
		"a pair of surrogates":  `{"a":"\ud83d\ude00"}`,
		"no character":          "{\"a\":\"\ufffd\uffff\"}",
		"line separators":       "{\"a\":\"\u2028\u2029\u0085\"}",
		"letters in two ways":   "{\"\u00e9\":\"e\u0301\"}",
		"markup":                `{"a":"</script>&<"}`,
		"numbers":               `{"a":1e999,"b":0.10,"c":-0,"d":12345678901234567890.123456789}`,
		"names of all kinds":    `{"":1," ":2,"\u0000":3,"__proto__":4,"A":5,"a":6}`,
		"many members":          members(20_000),
		"many levels":           nested(9_000),
	} {
		for _, plain := range []bool{false, true} {
			key := keyOf("q", fmt.Sprint(name, " ", plain))
			if plain {
				n.publish(n.readySubject(key), `{"type":"t","input":`+input+`}`)
			} else {
				s := spec("q", key.ID)
				s.Input = jsontext.Value(input)
				n.enqueue(s)
			}
			cl := claimOne(t, c)
			require.Equal(t, key, cl.Job().Key())
			sameJSON(t, name, input, cl.Job().Input)
			settle(t, cl, job.Succeed(jsontext.Value(input)))
			j := n.see(key, job.Succeeded)
			sameJSON(t, name, input, j.Input)
			sameJSON(t, name, input, j.Result)
		}
	}
}

// sameJSON compares value by value, members in their order.
func sameJSON(t *testing.T, name, want string, got jsontext.Value) {
	t.Helper()
	a, b := jsontext.NewDecoder(strings.NewReader(want)), jsontext.NewDecoder(bytes.NewReader(got))
	for {
		x, err := a.ReadToken()
		if errors.Is(err, io.EOF) {
			_, err = b.ReadToken()
			require.ErrorIs(t, err, io.EOF, name)
			return
		}
		require.NoError(t, err)
		kind, text := x.Kind(), x.String()
		y, err := b.ReadToken()
		require.NoError(t, err)
		if kind != y.Kind() || text != y.String() {
			require.FailNow(t, "another value", "%s: %q was %q", name, y, text)
		}
	}
}

// However deep an input is, it is refused when it is put in, or it runs. A result that is too deep for a record is
// refused like one that is too large, so that its job can end without it.
func TestTheDeepestInputRunsOrIsRefused(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.patient("q")
	ran, refused := 0, 0
	for levels := 9_998; levels <= 10_001; levels++ {
		s := spec("q", fmt.Sprint(levels))
		s.Input = jsontext.Value(nested(levels))
		if _, err := n.Enqueue(t.Context(), s); err != nil {
			require.ErrorContains(t, err, "input", levels)
			_, err = n.Get(t.Context(), keyOf("q", s.ID))
			require.ErrorIs(t, err, job.ErrNotFound)
			refused++
			continue
		}
		cl := claimOne(t, c)
		require.Equal(t, s.ID, cl.Job().ID)
		settle(t, cl, job.Fail(0, "again"))
		cl = claimOne(t, c)
		require.Equal(t, s.ID, cl.Job().ID)
		_, err := cl.Settle(t.Context(), job.Succeed(jsontext.Value(nested(10_000))))
		require.ErrorIs(t, err, job.ErrTooLarge)
		settle(t, cl, job.Succeed(nil))
		require.Len(t, n.see(keyOf("q", s.ID), job.Succeeded).Input, len(s.Input))
		ran++
	}
	require.NotZero(t, ran)
	require.NotZero(t, refused)
	t.Logf("%d ran, %d were refused", ran, refused)
	n.clean("q", ran)
}
