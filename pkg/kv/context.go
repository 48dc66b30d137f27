package kv

import "context"

type contextKey struct{}

// NewContext is ctx with a space: whoever runs a handler gives it the space of its job.
func NewContext(ctx context.Context, s *Space) context.Context {
	return context.WithValue(ctx, contextKey{}, s)
}

// FromContext is how a handler gets at the space of its job:
//
//	func handle(ctx context.Context, j *job.Job) error {
//		space, ok := kv.FromContext(ctx)
//		…
//	}
//
// It is false where there is none: the worker was given no store.
func FromContext(ctx context.Context) (*Space, bool) {
	s, ok := ctx.Value(contextKey{}).(*Space)
	return s, ok
}
