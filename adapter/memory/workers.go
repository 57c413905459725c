package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tenetdev/tenet/job"
)

// crew is what workers say of themselves.
type crew struct {
	leader    string
	leads     time.Time               // until then
	announced map[string]announcement // by name
}

// announcement is a worker that is listed until a time.
type announcement struct {
	job.WorkerInfo
	until time.Time
}

// Announce implements job.Registry.
func (s *Jobs) Announce(ctx context.Context, w job.WorkerInfo, ttl time.Duration) error {
	if ttl > 0 {
		if err := job.CheckLease(ttl); err != nil {
			return err
		}
	}
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	w.Queues, w.Types = slices.Clone(w.Queues), slices.Clone(w.Types)
	s.crew.announced[w.Name] = announcement{w, now.Add(ttl)}
	maps.DeleteFunc(s.crew.announced, func(_ string, a announcement) bool { return !now.Before(a.until) })
	return nil
}

// Workers implements job.Registry.
func (s *Jobs) Workers(ctx context.Context) ([]job.WorkerInfo, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var list []job.WorkerInfo
	for _, a := range s.crew.announced {
		if now.Before(a.until) {
			list = append(list, job.WorkerInfo{Name: a.Name, Queues: slices.Clone(a.Queues), Types: slices.Clone(a.Types)})
		}
	}
	slices.SortFunc(list, func(a, b job.WorkerInfo) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}
