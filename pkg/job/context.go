package job

import "context"

type contextKey struct{}

// NewContext is ctx with the job that is being run.
func NewContext(ctx context.Context, j *Job) context.Context {
	return context.WithValue(ctx, contextKey{}, j)
}

// FromContext is the job that is being run, or nil.
func FromContext(ctx context.Context) *Job {
	j, _ := ctx.Value(contextKey{}).(*Job)
	return j
}
