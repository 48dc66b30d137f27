package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// ensureWorkers finds or makes the bucket in which workers say what they run.
func (s *Store) ensureWorkers(ctx context.Context) error {
	name := s.names.workersBucket()
	kv, err := s.js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		if s.cfg.Manage == ManageVerify {
			return fmt.Errorf("streams: %w: bucket %s is missing, and this process may not make it", ErrTopology, name)
		}
		kv, err = s.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: name, Description: "jetcrew: workers, and the claims that each one runs",
			History: 1, Replicas: s.cfg.Replicas, LimitMarkerTTL: time.Minute,
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // somebody else was faster
			kv, err = s.js.KeyValue(ctx, name)
		}
	}
	if err != nil {
		return fmt.Errorf("streams: bucket %s: %w", name, err)
	}
	if s.kv == nil { // a bucket that was made again is reached by the same name
		s.kv = kv
	}
	return nil
}

// serverTime reads the server's clock from the answer to a stream info.
func (s *Store) serverTime(ctx context.Context) (time.Time, error) {
	msg, err := s.nc.RequestWithContext(ctx, apiPrefix+"STREAM.INFO."+s.names.stream(), nil)
	if err != nil {
		return time.Time{}, err
	}
	var info struct {
		TS    time.Time           `json:"ts"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := job.Decode(msg.Data, &info); err != nil {
		return time.Time{}, err
	}
	if info.Error != nil {
		return time.Time{}, info.Error
	}
	return info.TS, nil
}
