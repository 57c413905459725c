package job

import (
	"context"
	"errors"
	"log/slog"
	"testing"
)

// flakyRelay fails once.
type flakyRelay struct {
	Relay
	failing bool
	got     []Event
}

func (f *flakyRelay) Watched(context.Context) (bool, error) { return true, nil }
func (f *flakyRelay) Publish(_ context.Context, list []Event) error {
	if f.failing {
		f.failing = false
		return errors.New("away")
	}
	f.got = append(f.got, list...)
	return nil
}

// TestJ24AWorkerThatStopsPublishesWhatAnOutageLeft ends a relay after an outage.
func TestJ24AWorkerThatStopsPublishesWhatAnOutageLeft(t *testing.T) {
	store, all := &flakyRelay{failing: true}, &events{}
	r := &relay{store: store, events: all, health: &health{log: slog.Default()}, own: all.subscribe(10)}
	ctx, stop := context.WithCancel(t.Context())
	all.add(&Event{ID: "1"})
	r.publish(ctx) // fails
	all.add(&Event{ID: "2"})
	stopped := make(chan struct{})
	go func() { r.run(ctx); close(stopped) }()
	stop()
	<-stopped
	if len(store.got) != 2 {
		t.Fatalf("published %d of 2 events: %+v", len(store.got), store.got)
	}
}
