package doctor

import (
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/redact"
)

// Unconnected is the report of a server that could not be connected to: one check, which says why. Its error means that
// the Config cannot be used.
func Unconnected(cfg Config, why error) (*Report, error) {
	if err := cfg.normalize(); err != nil {
		return nil, err
	}
	return &Report{
		Namespace: cfg.Namespace, At: job.Millis(cfg.Now()),
		Findings: []Finding{{
			ID: "connection", Level: Error, Text: redact.Text(why.Error()),
			Advice: "see that the server runs and can be reached from here, and that the address (JETCREW_URL), the user's credentials and TLS are right",
		}},
	}, nil
}
