package pipelinetest_test

import (
	"testing"

	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

// A source's test calls the suite with a function that opens an empty queue.
func ExampleSources() {
	_ = func(t *testing.T) { // func TestSource(t *testing.T)
		pipelinetest.Sources(t, pipelinetest.SourceOptions{
			Open: func(t *testing.T) pipelinetest.Queue {
				queue := pipeline.NewMemorySource()
				return pipelinetest.Queue{
					Put:    func(_ *testing.T, list ...*pipeline.Transaction) { queue.Add(list...) },
					Source: func(*testing.T) pipeline.Source { return queue },
				}
			},
			Ordered: true, Counts: true, Once: true,
		})
	}
	// Output:
}
