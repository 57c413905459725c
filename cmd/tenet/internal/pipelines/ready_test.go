//go:build unix

package pipelines

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/pipeline"
)

// unusable is a source or sink whose Check may fail.
type unusable struct {
	pipeline.Source
	pipeline.Sink
	why error
}

func (u unusable) Check(context.Context) error { return u.why }

// TestL9APipelineIsReadyWhenItsSourceAndSinksAre checks sources, sinks and dead letters of consumers and producers.
func TestL9APipelineIsReadyWhenItsSourceAndSinksAre(t *testing.T) {
	from, to, dead := unusable{why: errors.New("from")}, unusable{why: errors.New("to")}, unusable{why: errors.New("dead")}
	for _, c := range []struct {
		setup *pipelineSetup
		why   error
	}{
		{&pipelineSetup{from: from, sink: unusable{}, letters: unusable{}}, from.why},
		{&pipelineSetup{from: unusable{}, sink: to, letters: unusable{}}, to.why},
		{&pipelineSetup{from: unusable{}, sink: unusable{}, letters: dead}, dead.why},
		{&pipelineSetup{from: &single{}}, nil},
	} {
		if err := c.setup.check(t.Context()); !errors.Is(err, c.why) {
			t.Errorf("%v, not %v", err, c.why)
		}
	}
}

// silent is a source whose Fetch does not return.
type silent chan struct{}

func (s silent) Fetch(context.Context, pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	<-s
	return nil, pipeline.ErrEnd
}

func TestL9AHangingInputIsNotHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := make(silent)
		in := &intake{source: source, size: 1, wait: time.Second}
		if err := in.healthy(); err != nil {
			t.Error(err)
		}
		ended := make(chan struct{})
		go func() {
			for range in.all(t.Context()) {
				t.Error("there is something")
			}
			close(ended)
		}()
		time.Sleep(healthyFetch)
		if err := in.healthy(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if err := in.healthy(); err == nil {
			t.Error("a hanging input is healthy")
		}
		close(source)
		<-ended
		if err := in.healthy(); err != nil {
			t.Error(err)
		}
	})
}
