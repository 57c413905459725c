package rabbitmq_test

import (
	"testing"

	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

// TestL11EveryTransactionEndsAsScriptedThroughCrashes: classic queues get fewer transactions, to save time.
func TestL11EveryTransactionEndsAsScriptedThroughCrashes(t *testing.T) {
	options := map[string]map[string]rabbitmq.Options{}
	for _, kind := range kinds {
		options[kind] = map[string]rabbitmq.Options{}
		for _, name := range []string{pipelinetest.Work, pipelinetest.DeadLetters} {
			o := rabbitmq.Options{Queue: queue(), Declare: kind}
			options[kind][name] = o
			must(t, openSink(t, o).Close())
		}
	}
	// RabbitMQ 3.10 can forget a quorum queue in a crash within minutes of its declaration, unless it was stopped in between.
	restart(t)
	sizes := map[string]int{rabbitmq.Quorum: 100_000, rabbitmq.Classic: 20_000}
	if testing.Short() {
		delete(sizes, rabbitmq.Classic)
	}
	for kind, transactions := range sizes {
		t.Run(kind, func(t *testing.T) {
			pipelinetest.Crashes(t, pipelinetest.Broker{
				Source: func(t *testing.T, name string) pipeline.Source { return openSource(t, options[kind][name]) },
				Sink:   func(t *testing.T, name string) pipeline.Sink { return openSink(t, options[kind][name]) },
				Left:   func(t *testing.T, name string) int { return waiting(t, options[kind][name].Queue) },
				Kill:   func(t *testing.T) { restartAfter(t, broker.Kill) },

				Transactions: transactions,
			})
		})
	}
}
