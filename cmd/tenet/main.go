// Command tenet runs work that can fail under policies that are data: commands, and the tools to write and check policy
// documents. "tenet --help" lists what it can do.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	kill := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	p := program{kill: kill, lookupEnv: os.LookupEnv, hangups: newHangups()}
	next := func() syscall.Signal { // the next one that stops
		for {
			if s, _ := (<-signals).(syscall.Signal); s != syscall.SIGHUP || !p.hangups.take() {
				return s
			}
		}
	}
	go func() { // for the life of the process
		cancel(command.Interrupt{Signal: next()})
		next()
		close(kill)
		signal.Reset() // a third one ends this process, whatever hangs
	}()
	os.Exit(p.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
