package streams

import (
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// queueSettings are what a queue says of itself, apart from what the server does with it.
type queueSettings struct {
	retention map[job.Status]time.Duration // of records, where the queue has its own; 0: none
}

// settings are a queue's as they were last seen. It never waits.
func (s *Store) settings(queue string) queueSettings { return queueSettings{} }
