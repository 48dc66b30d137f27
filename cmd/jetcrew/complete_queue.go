package main

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/streams"
)

// How long a shell waits for the names of queues: half of it for a server to answer, of however many.
const (
	completeTimeout = time.Second
	completeConnect = completeTimeout / 2
)

// completeQueue has a shell offer the names of queues. Whatever goes wrong, it offers none, and says nothing: whoever
// types cannot do anything about it just then.
func (a *app) completeQueue(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, err := a.queueNames(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, name := range names {
		if strings.HasPrefix(name, typed) && safe(name) == name { // others would reach the terminal as they are
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeQueueArg is completeQueue for a command whose one argument is a queue.
func (a *app) completeQueueArg(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeQueue(cmd, args, typed)
}

// connectToComplete connects as flags and environment say, within the time that a shell waits. It makes nothing there. Its
// caller calls end.
func (a *app) connectToComplete(cmd *cobra.Command) (ctx context.Context, c *client.Client, cfg *config.Config, end func(), err error) {
	if cfg, err = a.load(cmd); err != nil {
		return nil, nil, nil, nil, err
	}
	cfg.Manage = string(streams.ManageVerify)
	ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
	connecting, connected := context.WithTimeout(ctx, completeConnect)
	defer connected()
	c, err = a.connect(ctx, cfg, zerolog.Nop(), nats.Timeout(completeConnect), nats.SetCustomDialer(dialWithin{connecting}))
	if err != nil {
		cancel()
		return nil, nil, nil, nil, err
	}
	return ctx, c, cfg, func() { c.Close(); cancel() }, nil
}

// queueNames asks for the names of all queues, as flags and environment say where. It makes nothing.
func (a *app) queueNames(cmd *cobra.Command) ([]string, error) {
	ctx, c, _, end, err := a.connectToComplete(cmd)
	if err != nil {
		return nil, err
	}
	defer end()
	queues, err := c.Queues(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(queues))
	for i := range queues {
		names[i] = queues[i].Name
	}
	return names, nil
}

// dialWithin dials until a context ends, and not once more then: the NATS client tries one server after the other.
type dialWithin struct{ ctx context.Context }

func (d dialWithin) Dial(network, address string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(d.ctx, network, address)
}
