package server

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"maps"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

const (
	countersTime = eventEvery / 2  // how long the counters of all queues are used again
	clientsEvery = 5 * time.Second // between looks at clients of other servers
	maxDocuments = 1000            // that the pulse looks at
)

// ofQueues returns the counters of the queues that a caller may see.
func (c *caller) ofQueues(stats map[string]job.QueueStats) map[string]job.QueueStats {
	own := maps.Clone(stats)
	maps.DeleteFunc(own, func(name string, _ job.QueueStats) bool { return !within(name, c.Queues) })
	return own
}

// pulse counts changes. Each of its numbers grows when a look finds that a fingerprint differs from the one before.
type pulse struct {
	api.Pulse
	begun                    bool
	jobs, documents, clients uint64 // fingerprints
	audit                    string // the end of the log
	reports                  uint64 // of this server's clients
	counted                  time.Time
}

func fingerprint(v any) uint64 {
	raw, _ := json.Marshal(v) // data of stores
	h := fnv.New64a()
	_, _ = h.Write(raw)
	return h.Sum64()
}

// change counts a change of a fingerprint.
func change[T comparable](n *uint64, known *T, found T) {
	if *known != found {
		*known = found
		*n++
	}
}

// look compares the stores with the look before. What does not answer has not changed. stats is nil if it is not known.
func (p *pulse) look(ctx context.Context, s *Server, stats map[string]job.QueueStats) {
	if queues, err := s.options.Jobs.Queues(ctx); err == nil && stats != nil {
		steady := make(map[string]job.QueueStats, len(stats))
		for name, q := range stats {
			q.OldestReady = 0 // which grows while nothing happens
			steady[name] = q
		}
		change(&p.Jobs, &p.jobs, fingerprint([]any{steady, queues}))
	}
	if documents, err := s.options.Policies.Documents(ctx, "", maxDocuments); err == nil {
		versions := map[string]int64{}
		for i := range documents {
			versions[documents[i].Name] = documents[i].Version
		}
		change(&p.Documents, &p.documents, fingerprint(versions))
		p.lookAtClients(ctx, s, versions)
	}
	if tail, err := tailAfter(ctx, s.options.Audit, p.audit); err == nil {
		change(&p.Audit, &p.audit, tail)
	}
	p.begun = true
}

func (p *pulse) lookAtClients(ctx context.Context, s *Server, documents map[string]int64) {
	before := p.Clients
	change(&p.Clients, &p.reports, s.hub.Changes())
	if now := time.Now(); now.Sub(p.counted) >= clientsEvery {
		p.counted = now
		counts := map[string]any{}
		for name := range documents {
			list, err := s.options.Policies.CountClients(ctx, name, now.Add(-seenWithin))
			if err != nil {
				return
			}
			counts[name] = list
		}
		change(&p.Clients, &p.clients, fingerprint(counts))
	}
	p.Clients = min(p.Clients, before+1)
}

// tailAfter returns the end of a log, which a source that does not know it is read for, from the last one on.
func tailAfter(ctx context.Context, source audit.Source, last string) (string, error) {
	if t, ok := source.(audit.Tailer); ok {
		return t.Tail(ctx)
	}
	err := source.Read(ctx, last, func(cursor string, _ []byte) error { last = cursor; return nil })
	return last, err
}

// Watch returns a channel with the server's pulse: at once, and then at most once a second when something has changed. An
// unread pulse is replaced by the next one. The channel is closed when ctx ends or the server drains. Watch is safe for
// concurrent use; any number of watchers cost the stores as much as one.
func (s *Server) Watch(ctx context.Context) <-chan api.Pulse {
	out := make(chan api.Pulse, 1)
	go func() { // ends with ctx or the server
		defer close(out)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		looked, leave := s.feed.listen(ctx, topics{pulse: true})
		defer leave()
		var last api.Pulse
		for sent := false; ctx.Err() == nil; {
			if p, ok := s.feed.beat(); ok && (!sent || p != last) {
				last, sent = p, true
				select {
				case <-out:
				default:
				}
				out <- p
			}
			select {
			case <-looked:
			case <-s.Closing():
				return
			}
		}
	}()
	return out
}
