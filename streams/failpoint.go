package streams

import (
	"fmt"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// noAnswer is a place right after something that the server has done. What a test has fail there is, to whoever asked
// for it, a request without an answer.
func noAnswer(place string) error {
	if !failpoint.Enabled {
		return nil
	}
	if err := failpoint.At(place); err != nil {
		return fmt.Errorf("%w: %w", job.ErrUnknown, err)
	}
	return nil
}
