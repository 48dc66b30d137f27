package main

import (
	"context"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/apiclient"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// keySpace is what commands ask for the keys and lists of a space. They do not know whether it answers over NATS or over
// HTTP.
type keySpace interface {
	Name() string
	Get(ctx context.Context, key string, into any) (bool, error)
	Set(ctx context.Context, key string, value any, ttl time.Duration) error
	Delete(ctx context.Context, key string) error
	DeleteIf(ctx context.Context, key string, expected any) (bool, error)
	Swap(ctx context.Context, key string, expected, next any, ttl time.Duration) (bool, error)
	Increment(ctx context.Context, key string, amount int64, ttl time.Duration) (int64, error)
	Expire(ctx context.Context, key string, ttl time.Duration) (bool, error)
	Keys(ctx context.Context, prefix string) iter.Seq2[string, error]
	ListNames(ctx context.Context, prefix string) iter.Seq2[string, error]
	Wipe(ctx context.Context) (int, error)
	ranked(name string) rankedList
}

// rankedList is what commands ask for one list.
type rankedList interface {
	Range(ctx context.Context, offset, limit int, order kv.Order) ([]kv.Entry, error)
	Put(ctx context.Context, id string, score float64, value any, keep int, higherOnly bool) (stored bool, dropped []kv.Entry, err error)
	Remove(ctx context.Context, id string) (bool, error)
	Delete(ctx context.Context) error
}

// storedSpace is a space over NATS.
type storedSpace struct{ *kv.Space }

func (s storedSpace) ranked(name string) rankedList { return storedList{s.List(name)} }

// storedList is a list over NATS.
type storedList struct{ *kv.List }

// Put adds an entry, or replaces it.
func (l storedList) Put(ctx context.Context, id string, score float64, value any, keep int, higherOnly bool) (bool, []kv.Entry, error) {
	opts := []kv.PutOption{kv.Keep(keep)}
	if higherOnly {
		opts = append(opts, kv.HigherOnly())
	}
	return l.List.Put(ctx, id, score, value, opts...)
}

// apiSpace is a space over HTTP.
type apiSpace struct{ *apiclient.Space }

func (s apiSpace) ranked(name string) rankedList { return s.List(name) }

// withSpace runs fn with the space that the command is about, as withFleet does.
func (a *app) withSpace(cmd *cobra.Command, timeout time.Duration, fn func(context.Context, keySpace) error) error {
	name, err := spaceOf(cmd)
	if err != nil {
		return err
	}
	return a.withEither(cmd, timeout, func(ctx context.Context, c *client.Client) error {
		return kvError(fn(ctx, storedSpace{c.KV().Space(name)}))
	}, func(ctx context.Context, c *apiclient.Client) error {
		return kvError(fn(ctx, apiSpace{c.Space(name)}))
	})
}

// valueOf is a key's value; false where there is none.
func valueOf[T any](ctx context.Context, s keySpace, key string) (T, bool, error) {
	var value T
	ok, err := s.Get(ctx, key, &value)
	if err != nil || !ok {
		return *new(T), false, err
	}
	return value, true, nil
}
