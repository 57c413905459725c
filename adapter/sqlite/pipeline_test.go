package sqlite_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/jobs"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

func TestJobsAreASource(t *testing.T) {
	const lease = 5 * time.Second
	pipelinetest.Sources(t, pipelinetest.SourceOptions{
		Open: func(t *testing.T) pipelinetest.Queue {
			s := open(t).Jobs()
			client := job.NewClient(s) // the sink already drops duplicates
			return pipelinetest.Queue{
				Put: func(t *testing.T, list ...*pipeline.Transaction) {
					t.Helper()
					sink := jobs.NewSink(client, jobs.SinkOptions{Type: "order", Queue: "orders"})
					for _, x := range list {
						if err := sink.Dispatch(t.Context(), x); err != nil {
							t.Fatal(err)
						}
					}
				},
				Source: func(t *testing.T) pipeline.Source {
					from, err := jobs.NewSource(s, jobs.SourceOptions{Queue: "orders", Lease: lease, Poll: 20 * time.Millisecond})
					if err != nil {
						t.Fatal(err)
					}
					return from
				},
			}
		},
		Ordered: true, Counts: true, Lease: lease, Bubble: synctest.Test,
	})
}

// taken lists the transactions of all jobs.
func taken(s *sqlite.Jobs) func(t *testing.T) []*pipeline.Transaction {
	return func(t *testing.T) (list []*pipeline.Transaction) {
		records, err := s.List(t.Context(), job.Filter{}, "", 10_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			list = append(list, jobs.FromJob(job.Job[[]byte]{ID: r.ID, Payload: r.Payload, Meta: r.Meta, Attempt: 1}))
		}
		return list
	}
}

func TestJobsAreASink(t *testing.T) {
	pipelinetest.Sinks(t, pipelinetest.SinkOptions{
		Open: func(t *testing.T) pipelinetest.Target {
			s := open(t).Jobs()
			sink := jobs.NewSink(job.NewClient(s), jobs.SinkOptions{Type: "order"})
			return pipelinetest.Target{Sink: func(*testing.T) pipeline.Sink { return sink }, Taken: taken(s)}
		},
		Ordered: true, Deduplicates: true,
	})
}
