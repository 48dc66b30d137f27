package natstest

import (
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

// serve is the role of a nats-server: it runs the configuration file that the
// environment names until it is told to stop by a signal.
func serve() int {
	opts, err := server.ProcessConfigFile(os.Getenv(configEnv))
	if err != nil {
		fmt.Fprintf(os.Stderr, "natstest: server configuration: %v\n", err)
		return 2
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		fmt.Fprintf(os.Stderr, "natstest: server: %v\n", err)
		return 2
	}
	srv.ConfigureLogger()
	if err := server.Run(srv); err != nil {
		fmt.Fprintf(os.Stderr, "natstest: server: %v\n", err)
		return 2
	}
	srv.WaitForShutdown()
	return 0
}
