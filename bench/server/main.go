// Command server measures the control plane and the HTTP API beside bare handlers and the library. Streaming clients run in
// a process of their own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/tenetdev/tenet/bench/bars"
)

func main() {
	following := flag.String("follow", "", "internal: follow documents of the server at this URL, as the second process does")
	documents := flag.Int("documents", 1, "internal: how many documents are followed")
	clients := flag.Int("clients", 10_000, "streaming clients")
	f := bars.Parse()
	bars.Main(func(ctx context.Context) (err error) {
		if *following != "" {
			return follow(ctx, os.Stdin, os.Stdout, fleet{url: *following, documents: *documents, clients: *clients})
		}
		env, err := newEnvironment(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, env.close()) }()
		return bars.Run(ctx, bars.Suite{
			Title:   "Benchmarks of the server",
			Command: fmt.Sprintf("go run -C bench ./server -rounds %d -clients %d -markdown ../docs/benchmarks-server.md", f.Rounds, *clients),
			Facts: []string{
				env.server + "; all clients on this machine, over loopback, so that server and clients share the processors.",
				"A client that has applied a revision has read its event. The first one in the process verifies the signature and compiles the document for all, which 10,000 machines would do at the same time.",
			},
			Cases: cases(env, *clients), Bars: goals(),
		}, f)
	})
}
