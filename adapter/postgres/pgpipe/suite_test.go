package pgpipe_test

import (
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres/pgpipe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

func TestQueue(t *testing.T) {
	for kind, done := range map[string]string{"deleting": "", "marking": "done_at"} {
		t.Run(kind, func(t *testing.T) {
			pipelinetest.Sources(t, pipelinetest.SourceOptions{
				Open: func(t *testing.T) pipelinetest.Queue {
					columns := queueColumns
					if done != "" {
						columns += ", done_at timestamptz"
					}
					o, name := newTable(t, columns)
					o.Done = done
					exec(t, "CREATE INDEX ON "+name+" (available_at, id)")
					return pipelinetest.Queue{
						Put:     func(t *testing.T, list ...*pipeline.Transaction) { put(t, name, list) },
						Source:  func(t *testing.T) pipeline.Source { return openQueue(t, o) },
						Restart: restart,
					}
				},
				Ordered: true, Counts: true, Lease: lease, Advance: advance, Timeout: 30 * time.Second, Load: 1000,
			})
		})
	}
}

func openQueue(t *testing.T, o pgpipe.Options) *pgpipe.Queue {
	t.Helper()
	q, err := pgpipe.OpenQueue(t.Context(), server.ClockURL(), o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestOutbox(t *testing.T) {
	pipelinetest.Sources(t, pipelinetest.SourceOptions{
		Open: func(t *testing.T) pipelinetest.Queue {
			o, name := newTable(t, outboxColumns)
			o.Consumer = "mail"
			exec(t, "CREATE INDEX ON "+name+" (tx)")
			return pipelinetest.Queue{
				Put:     func(t *testing.T, list ...*pipeline.Transaction) { put(t, name, list) },
				Source:  func(t *testing.T) pipeline.Source { return openOutbox(t, o) },
				Restart: restart,
			}
		},
		Ordered: true, Exclusive: true, Timeout: 30 * time.Second, Load: 1000,
	})
}

func openOutbox(t *testing.T, o pgpipe.Options) *pgpipe.Outbox {
	t.Helper()
	out, err := pgpipe.OpenOutbox(t.Context(), server.ClockURL(), o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSink(t *testing.T) {
	pipelinetest.Sinks(t, pipelinetest.SinkOptions{
		Open: func(t *testing.T) pipelinetest.Target {
			o, name := newTable(t, outboxColumns+", UNIQUE (id)")
			return pipelinetest.Target{
				Sink:    func(t *testing.T) pipeline.Sink { return openSink(t, o) },
				Taken:   func(t *testing.T) []*pipeline.Transaction { return taken(t, name, "seq") },
				Restart: restart,
			}
		},
		Ordered: true, Deduplicates: true, Timeout: 30 * time.Second, Load: 1000,
	})
}

func openSink(t *testing.T, o pgpipe.Options) *pgpipe.Sink {
	t.Helper()
	s, err := pgpipe.OpenSink(t.Context(), server.ClockURL(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
