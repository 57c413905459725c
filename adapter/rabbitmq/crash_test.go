package rabbitmq_test

import (
	"testing"

	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

// TestL11EveryTransactionEndsAsScriptedThroughCrashes: classic queues get fewer transactions, to save time. With -short they stand for
// both kinds, between which only the server makes a difference.
func TestL11EveryTransactionEndsAsScriptedThroughCrashes(t *testing.T) {
	sizes := map[string]int{rabbitmq.Quorum: 100_000, rabbitmq.Classic: 20_000}
	if testing.Short() {
		delete(sizes, rabbitmq.Quorum)
	}
	for kind, transactions := range sizes {
		t.Run(kind, func(t *testing.T) {
			options := map[string]rabbitmq.Options{}
			for _, name := range []string{pipelinetest.Work, pipelinetest.DeadLetters} {
				options[name] = rabbitmq.Options{Queue: queue(), Declare: kind}
				must(t, openSink(t, options[name]).Close())
			}
			if kind == rabbitmq.Quorum {
				// RabbitMQ 3.10 can forget a quorum queue in a crash within minutes of its declaration, unless it was stopped in between.
				restart(t)
			}
			pipelinetest.Crashes(t, pipelinetest.Broker{
				Source: func(t *testing.T, name string) pipeline.Source { return openSource(t, options[name]) },
				Sink:   func(t *testing.T, name string) pipeline.Sink { return openSink(t, options[name]) },
				Left:   func(t *testing.T, name string) int { return waiting(t, options[name].Queue) },
				Kill:   func(t *testing.T) { restartAfter(t, broker.Kill) },

				Transactions: transactions,
			})
		})
	}
}
