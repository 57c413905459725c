package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tenetdev/tenet/job"
)

// relayed are the events of workers, for watchers.
type relayed struct {
	list    []job.Event // the last ones, by position
	last    int64
	watched time.Time // until then
}

// Publish implements job.Relay.
func (s *Jobs) Publish(ctx context.Context, list []job.Event) error {
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, e := range list {
		s.events.last++
		e.Position, e.Meta = s.events.last, maps.Clone(e.Meta)
		s.events.list = append(s.events.list, e)
	}
	if n := len(s.events.list); n > job.EventsKept {
		s.events.list = s.events.list[n-job.EventsKept:]
	}
	return nil
}

// Watch implements job.Relay.
func (s *Jobs) Watch(ctx context.Context, after int64, limit int) ([]job.Event, int64, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer s.mu.Unlock()
	s.events.watched = now.Add(job.WatchFor)
	if after < 0 {
		return nil, s.events.last, nil
	}
	from := len(s.events.list) - int(min(max(s.events.last-after, 0), int64(len(s.events.list))))
	list := s.events.list[from:]
	list = slices.Clone(list[:min(len(list), max(limit, 0))])
	for i := range list {
		list[i].Meta = maps.Clone(list[i].Meta)
	}
	return list, s.events.last, nil
}

// Watched implements job.Relay.
func (s *Jobs) Watched(ctx context.Context) (bool, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	return now.Before(s.events.watched), nil
}
