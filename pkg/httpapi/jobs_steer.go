package httpapi

import (
	"context"
	"net/http"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// steerer serves the operations on one job.
type steerer struct {
	op job.Operation
	do func(context.Context, job.Key) (job.Changed, error)
}

// Changed is what became of an operation on one job.
type Changed struct {
	Identity
	Done            bool       `json:"done" doc:"This request changed the job."`
	Status          job.Status `json:"status,omitzero" doc:"The job's status afterwards, or, where nothing was done, as it was found."`
	CancelRequested bool       `json:"cancelRequested,omitzero" doc:"It runs, and is being stopped."`
}

func registerSteer(r *routes) {
	o := r.cfg.Operator
	for _, s := range []struct {
		steerer
		id, method, path, summary, says string
	}{
		{
			steerer{job.OpCancel, o.Cancel},
			"cancelJob", http.MethodPost, "/cancel", "End a job that waits, or stop one that runs",
			"One that runs is told to stop: its handler's context ends within a second, and then the job.",
		},
		{
			steerer{job.OpRequeue, o.Requeue},
			"requeueJob", http.MethodPost, "/requeue", "Run a job again that has ended",
			"It has all its attempts again; its history stays.",
		},
		{
			steerer{job.OpRunNow, o.RunNow},
			"runJobNow", http.MethodPost, "/run-now", "Start a job that waits for its instant",
			"Also one that waits for its next attempt. The rest of its life is as it would have been.",
		},
		{
			steerer{job.OpDelete, o.Delete},
			"deleteJob", http.MethodDelete, "", "Delete the record of a job that waits or has ended",
			"Its id may be used anew. One that runs is left alone: cancel it first.",
		},
	} {
		add[Changed](r, route{
			id: s.id, method: s.method, path: "/v1/jobs/{space}/{id}" + s.path, scope: ScopeOperate, summary: s.summary,
			says: s.says + " 409 if the state of the job does not allow it; then found says how the job is.",
			also: []int{http.StatusConflict},
		}, s.steer)
	}
}

func (s steerer) steer(ctx context.Context, in *oneJob) (any, error) {
	key, p := in.key()
	if p != nil {
		return nil, p
	}
	ch, err := s.do(ctx, key)
	if err != nil {
		return nil, err
	}
	out := Changed{identity(ch.Key), ch.Done, ch.Status, ch.CancelRequested}
	if !ch.Done {
		p := unchanged("the state of the job does not allow " + string(s.op))
		p.Found = &out
		return nil, p
	}
	return out, nil
}
