package kv_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// A store is made once, over whatever keeps it. Here that is memory; package kvbucket keeps it on JetStream.
func Example() {
	ctx := context.Background()
	store := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{})
	shop, other := store.Space("shop"), store.Space("other")

	type cart struct{ Items []string }
	if err := shop.Set(ctx, "cart:42", cart{Items: []string{"tea"}}, time.Hour); err != nil {
		fmt.Println(err)
	}
	got, ok, err := kv.Get[cart](ctx, shop, "cart:42")
	fmt.Println(got.Items, ok, err)
	_, ok, err = kv.Get[cart](ctx, other, "cart:42") // a space sees its own
	fmt.Println(ok, err)
	// Output:
	// [tea] true <nil>
	// false <nil>
}

// A handler finds the space of its job in its context.
func ExampleFromContext() {
	handle := func(ctx context.Context) error {
		space, ok := kv.FromContext(ctx)
		if !ok {
			return errors.New("this worker was given no store")
		}
		return space.Set(ctx, "lastRun", "today", 0)
	}
	space := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{}).Space("shop") // what the worker does
	fmt.Println(handle(kv.NewContext(context.Background(), space)))
	// Output: <nil>
}

// A counter is a window: the first hit opens it, and the hits that follow do not keep it open.
func ExampleSpace_Increment() {
	ctx := context.Background()
	space := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{}).Space("shop")
	const limit = 2
	for range 3 {
		hits, err := space.Increment(ctx, "logins/ada", 1, time.Minute)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(hits, hits <= limit)
	}
	// Output:
	// 1 true
	// 2 true
	// 3 false
}

// A lock is a key that only one can write, and that lapses with its holder. Whoever gives it back gives back its own.
func ExampleSwap() {
	ctx := context.Background()
	space := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{}).Space("shop")
	take := func(holder string) {
		taken, err := kv.Swap(ctx, space, "lock", nil, holder, 30*time.Second)
		fmt.Println(holder, taken, err)
	}
	take("ada")
	take("bob")
	back, err := space.DeleteIf(ctx, "lock", "bob")
	fmt.Println("bob gives it back:", back, err)
	back, err = space.DeleteIf(ctx, "lock", "ada")
	fmt.Println("ada gives it back:", back, err)
	take("bob")
	// Output:
	// ada true <nil>
	// bob false <nil>
	// bob gives it back: false <nil>
	// ada gives it back: true <nil>
	// bob true <nil>
}

// A change works out the next value from the present one, and is done over if somebody else was faster. It writes
// nothing if it is told nothing, and fails with what it is told.
func ExampleChange() {
	ctx := context.Background()
	space := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{}).Space("shop")
	type stock struct{ Cups int }
	buy := func(cups int) {
		left, err := kv.Change(ctx, space, "stock", func(s *stock) (*stock, error) {
			switch {
			case s == nil:
				return &stock{Cups: 10}, nil // the first one fills the shelf
			case cups == 0:
				return nil, nil
			case cups > s.Cups:
				return nil, job.Refuse("sold_out", fmt.Sprintf("There are only %d left.", s.Cups))
			}
			s.Cups -= cups
			return s, nil
		}, kv.Lasting[stock](24*time.Hour))
		switch {
		case err != nil:
			fmt.Println("refused:", err)
		case left == nil:
			fmt.Println("nothing to do")
		default:
			fmt.Println(left.Cups, "left")
		}
	}
	buy(1)
	buy(7)
	buy(0)
	buy(4)
	// Output:
	// 10 left
	// 3 left
	// nothing to do
	// refused: There are only 3 left.
}

// A lifetime may depend on what is written: here the closer the end, the sooner it lapses.
func ExampleLifetime() {
	ctx := context.Background()
	space := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{}).Space("shop")
	type session struct {
		User string
		Idle time.Duration
	}
	written, err := kv.Change(ctx, space, "session", func(*session) (*session, error) {
		return &session{User: "ada", Idle: 20 * time.Minute}, nil
	}, func(s session) time.Duration { return s.Idle })
	fmt.Println(*written, err)
	// Output: {ada 20m0s} <nil>
}

// A list ranks: here the three best players, each by their best score.
func ExampleList() {
	ctx := context.Background()
	board := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{}).Space("game").List("board")
	for _, r := range []struct {
		player string
		score  float64
	}{{"ada", 300}, {"bob", 100}, {"cyd", 200}, {"ada", 250}, {"dee", 150}, {"bob", 50}} {
		stored, dropped, err := board.Put(ctx, r.player, r.score, map[string]string{"level": "one"}, kv.Keep(3), kv.HigherOnly())
		if err != nil {
			fmt.Println(err)
		}
		fmt.Print(r.player, " ", r.score, " ", stored)
		for _, e := range dropped {
			fmt.Print(", ", e.ID, " fell off")
		}
		fmt.Println()
	}
	best, err := board.Range(ctx, 0, 2, kv.Descending)
	fmt.Println(len(best), best[0].ID, best[1].ID, err)
	worst, err := board.Range(ctx, 0, 1, kv.Ascending)
	fmt.Println(worst[0].ID, string(worst[0].Value), err)
	// Output:
	// ada 300 true
	// bob 100 true
	// cyd 200 true
	// ada 250 false
	// dee 150 true, bob fell off
	// bob 50 true, bob fell off
	// 2 ada cyd <nil>
	// dee {"level":"one"} <nil>
}

// An error says which operation failed, and on what; what is behind it can be told by errors.Is.
func ExampleErrTTL() {
	space := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{}).Space("shop")
	err := space.Set(context.Background(), "k", 1, -time.Second)
	fmt.Println(errors.Is(err, kv.ErrTTL), err)
	// Output: true kv: set "k" in space "shop": invalid lifetime: -1s is negative
}
