package jobs_test

import (
	"testing"

	"github.com/tenetdev/tenet/adapter/jobs"
	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/job"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		`jobs: NewSink: the client is nil`:         func() error { jobs.NewSink(nil, jobs.SinkOptions{Type: "t"}); return nil },
		`jobs: NewSink: SinkOptions.Type is empty`: func() error { jobs.NewSink(job.NewClient(memory.Open().Jobs()), jobs.SinkOptions{}); return nil },
		`jobs: NewSource: the store is nil`:        func() error { _, err := jobs.NewSource(nil, jobs.SourceOptions{}); return err },
		`jobs: Dispatch: the transaction is nil`:   func() error { return new(jobs.Sink).Dispatch(t.Context(), nil) },
	})
}
