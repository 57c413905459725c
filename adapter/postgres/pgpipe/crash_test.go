package pgpipe_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres/pgpipe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

// TestL11EveryTransactionEndsAsScriptedThroughCrashes marks finished rows, so that the table shows the outcome of each.
func TestL11EveryTransactionEndsAsScriptedThroughCrashes(t *testing.T) {
	options, names := map[string]pgpipe.Options{}, map[string]string{}
	for _, queue := range []string{pipelinetest.Work, pipelinetest.DeadLetters} {
		o, name := newTable(t, queueColumns+", done_at timestamptz")
		exec(t, "CREATE INDEX ON "+name+" (available_at, id) WHERE done_at IS NULL")
		o.Done, o.Lease = "done_at", 5*time.Second
		options[queue], names[queue] = o, name
	}
	b := pipelinetest.Broker{
		Source: func(t *testing.T, queue string) pipeline.Source { return openQueue(t, options[queue]) },
		Sink:   func(t *testing.T, queue string) pipeline.Sink { return openSink(t, options[queue]) },
		Left: func(t *testing.T, queue string) int {
			return count(t, "SELECT count(*) FROM "+names[queue]+" WHERE done_at IS NULL")
		},
		Kill: func(t *testing.T) {
			if err := errors.Join(server.Kill(), server.Run()); err != nil {
				t.Error(err)
			}
		},
		Lease: options[pipelinetest.Work].Lease, Transactions: 100_000,
	}
	pipelinetest.Crashes(t, b)
	if n := count(t, "SELECT count(*) FROM "+names[pipelinetest.Work]+" WHERE done_at IS NULL"); n != 0 {
		t.Errorf("%d rows are not marked", n)
	}
}
