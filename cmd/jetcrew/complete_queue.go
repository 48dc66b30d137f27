package main

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/apiclient"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
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

// toComplete runs the one of two functions that asks whom flags and environment name, within the time that a shell waits.
// It makes nothing there.
func (a *app) toComplete(cmd *cobra.Command, overNATS func(context.Context, *client.Client, *config.Config) error, overHTTP func(context.Context, *apiclient.Client) error) error {
	cfg, err := a.load(cmd)
	if err != nil {
		return err
	}
	over, err := asksAPI(cmd, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
	defer cancel()
	if over {
		cfg.LogLevel = zerolog.LevelErrorValue // a warning would stand in the line that is typed
		c, err := a.newAPIClient(cfg)
		if err != nil {
			return err
		}
		defer c.Close()
		return overHTTP(ctx, c)
	}
	cfg.Manage = string(streams.ManageVerify)
	connecting, connected := context.WithTimeout(ctx, completeConnect)
	defer connected()
	c, err := a.connect(ctx, cfg, zerolog.Nop(), nats.Timeout(completeConnect), nats.SetCustomDialer(dialWithin{connecting}))
	if err != nil {
		return err
	}
	defer c.Close()
	return overNATS(ctx, c, cfg)
}

// queueNames asks for the names of all queues.
func (a *app) queueNames(cmd *cobra.Command) (names []string, err error) {
	ask := func(ctx context.Context, o job.QueueOperator) error {
		queues, err := o.Queues(ctx)
		for i := range queues {
			names = append(names, queues[i].Name)
		}
		return err
	}
	err = a.toComplete(cmd, func(ctx context.Context, c *client.Client, _ *config.Config) error { return ask(ctx, c) },
		func(ctx context.Context, c *apiclient.Client) error { return ask(ctx, c) })
	return names, err
}

// dialWithin dials until a context ends, and not once more then: the NATS client tries one server after the other.
type dialWithin struct{ ctx context.Context }

func (d dialWithin) Dial(network, address string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(d.ctx, network, address)
}
