// Command tenet runs work that can fail under policies that are data: commands, and the tools to write and check policy
// documents. "tenet --help" lists what it can do.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tenetdev/tenet/internal/command"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	kill := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() { // for the life of the process
		first, _ := (<-signals).(syscall.Signal)
		cancel(command.Interrupt{Signal: first})
		<-signals
		close(kill)
		signal.Reset() // a third one ends this process, whatever hangs
	}()
	os.Exit(program{kill: kill, lookupEnv: os.LookupEnv}.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
