package rabbitmq_test

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

var kinds = []string{rabbitmq.Quorum, rabbitmq.Classic}

// restartOf is the restart of the suites: with -short only for quorum queues, because those of crash_test.go are classic then.
func restartOf(kind string) func(*testing.T) {
	if testing.Short() && kind != rabbitmq.Quorum {
		return nil
	}
	return restart
}

func TestSource(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			pipelinetest.Sources(t, pipelinetest.SourceOptions{
				Open: func(t *testing.T) pipelinetest.Queue {
					o := rabbitmq.Options{Queue: queue(), Declare: kind}
					return pipelinetest.Queue{
						Put:     func(t *testing.T, list ...*pipeline.Transaction) { put(t, o, list...) },
						Source:  func(t *testing.T) pipeline.Source { return openSource(t, o) },
						Restart: restartOf(kind),
					}
				},
				Ordered: true, Counts: true, Timeout: 30 * time.Second,
			})
		})
	}
}

func TestSink(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			pipelinetest.Sinks(t, pipelinetest.SinkOptions{
				Open: func(t *testing.T) pipelinetest.Target {
					o := rabbitmq.Options{Queue: queue(), Declare: kind}
					openSink(t, o)
					taken := &taken{queue: o.Queue}
					return pipelinetest.Target{
						Sink:    func(t *testing.T) pipeline.Sink { return openSink(t, o) },
						Taken:   taken.all,
						Restart: restartOf(kind),
					}
				},
				Ordered: true, Timeout: 30 * time.Second,
			})
		})
	}
}

// taken reads a queue once: the suite calls Taken until all messages have arrived.
type taken struct {
	queue string
	list  []*pipeline.Transaction
}

func (k *taken) all(t *testing.T) []*pipeline.Transaction {
	t.Helper()
	s := openSource(t, rabbitmq.Options{Queue: k.queue})
	for {
		got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 100})
		if err != nil && !errors.Is(err, amqp.ErrClosed) {
			t.Fatal(err)
		}
		if len(got) == 0 {
			must(t, s.Close())
			return k.list
		}
		for _, d := range got {
			k.list = append(k.list, d.Transaction)
		}
		for _, err := range s.Ack(t.Context(), got) {
			must(t, err)
		}
	}
}
