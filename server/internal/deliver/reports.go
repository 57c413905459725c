package deliver

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
)

const (
	maxClients   = 200_000          // kept in memory; more are served but not recorded
	idleAfter    = 10 * time.Minute // after which a silent client leaves the memory; the store keeps it
	seenInterval = 30 * time.Second // between writes of a client about which only the time has changed
)

// reports collects what clients do until it is written to the store.
type reports struct {
	changes  atomic.Uint64 // of what is known of clients, times aside
	mu       sync.Mutex    // guards clients and evidence
	clients  map[policystore.ClientKey]*client
	evidence map[evidenceKey]*rollout.Counters // of the next batch
	batch    []policystore.Evidence            // repeated until the store has confirmed it; only the flush uses it and what is below
	source   string                            // of the batches
	batches  int64
}

// client is what is known of a client, and how far its reports have been counted.
type client struct {
	policystore.Client
	written  time.Time // when it was last written to the store
	dirty    bool
	session  string
	sequence int64
	step     stepKey
	counted  map[int64]*rollout.Counters // in that step, by revision
}

type stepKey struct {
	rollout string
	step    int
}

type evidenceKey struct {
	stepKey
	revision int64
}

// client returns the client of a key, which it adds if it is new, or nil if there are too many. The caller holds mu.
func (r *reports) client(key policystore.ClientKey) *client {
	c := r.clients[key]
	if c == nil {
		if len(r.clients) >= maxClients {
			return nil
		}
		c = &client{Client: policystore.Client{Document: key.Document, ID: key.ID}}
		r.clients[key] = c
	}
	return c
}

// contact is a request of a client for its revision.
type contact struct {
	policystore.ClientKey
	labels             map[string]string
	desired, delivered int64 // delivered is 0 if nothing was sent
	applied            int64 // as the client said, or 0
}

func (r *reports) saw(k contact, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.client(k.ClientKey)
	if c == nil {
		return
	}
	before := c.Client
	c.Labels, c.Desired, c.LastSeen = k.labels, k.desired, now
	if k.delivered != 0 {
		c.Delivered = k.delivered
	}
	if k.applied != 0 {
		c.Applied = k.applied
		c.Delivered = max(c.Delivered, k.applied)
	}
	changed := before.Desired != c.Desired || before.Delivered != c.Delivered || before.Applied != c.Applied || !maps.Equal(before.Labels, c.Labels)
	if changed {
		r.changes.Add(1)
	}
	c.dirty = c.dirty || changed || now.Sub(c.written) >= seenInterval
}

// Changes counts the changes of what the clients of this server have and are to have. It says nothing else.
func (h *Hub) Changes() uint64 { return h.reported.changes.Load() }

// report counts a report. One whose number has already been counted changes nothing.
func (r *reports) report(v *view, p *protocol.Report, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.client(policystore.ClientKey{Document: v.Name, ID: p.Client})
	if c == nil || c.session == p.Session && p.Sequence <= c.sequence {
		return
	}
	c.session, c.sequence = p.Session, p.Sequence
	if c.Applied != p.Applied || c.Refused != p.Refused {
		r.changes.Add(1)
	}
	c.Labels, c.Applied, c.Refused = p.Labels, p.Applied, p.Refused
	c.Reason = strings.ReplaceAll(p.Reason, "\x00", "\ufffd") // which PostgreSQL does not store
	c.Staleness, c.LastSeen, c.dirty = time.Duration(p.Staleness*float64(time.Second)), now, true
	c.Delivered = max(c.Delivered, c.Applied, c.Refused)
	c.Reported = reportedOf(p, now)
	if c.Desired == 0 { // the client follows the document through another server
		c.Desired = v.desired(identity{id: p.Client, labels: p.Labels}).number
	}
	if v.Rollout == nil || v.Rollout.State != policystore.Running {
		return
	}
	step := stepKey{v.Rollout.ID, v.Rollout.Step}
	if c.step != step {
		c.step, c.counted = step, map[int64]*rollout.Counters{}
	}
	for _, counters := range p.Counters {
		if counters.Revision != v.Rollout.Candidate && counters.Revision != v.Rollout.Base {
			continue
		}
		own := c.counted[counters.Revision]
		if own == nil {
			own = &rollout.Counters{}
			c.counted[counters.Revision] = own
		}
		r.sum(evidenceKey{step, counters.Revision}).AddReport(own, counters.Counters)
	}
}

// reportedOf returns what a report says of parts; it is never nil.
func reportedOf(p *protocol.Report, now time.Time) *policystore.Reported {
	since := func(seconds float64) time.Time { return now.Add(-time.Duration(seconds * float64(time.Second))) }
	out := &policystore.Reported{Trial: p.Trial}
	for _, m := range p.Mechanisms {
		out.Mechanisms = append(out.Mechanisms, policystore.Mechanism{
			Kind: m.Kind, Name: m.Name, State: m.State, Since: since(m.Seconds), Openings: m.Openings, Refusals: m.Refusals,
		})
	}
	for _, l := range p.Pipelines {
		out.Pipelines = append(out.Pipelines, policystore.Pipeline{
			Kind: l.Kind, Name: l.Name, Source: l.Source, Sink: l.Sink, Begun: since(l.Seconds), Ended: l.Ended, Rate: l.Rate, Fetched: l.Fetched,
			Success: l.Success, Exception: l.Exception, Failed: l.Failed, Redelivered: l.Redelivered, Retries: l.Retries, InFlight: l.InFlight,
			Lag: l.Lag, LagKnown: l.LagKnown,
		})
	}
	return out
}

// sum returns the evidence that waits for the next flush. The caller holds mu.
func (r *reports) sum(k evidenceKey) *rollout.Counters {
	if r.evidence == nil {
		r.evidence = map[evidenceKey]*rollout.Counters{}
	}
	if r.evidence[k] == nil {
		r.evidence[k] = &rollout.Counters{}
	}
	return r.evidence[k]
}

// take returns the clients that wait to be written, and marks them as written.
func (r *reports) take(now time.Time) []policystore.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	var clients []policystore.Client
	for key, c := range r.clients {
		switch {
		case c.dirty:
			c.dirty, c.written = false, now
			clients = append(clients, c.Client)
			c.Reported = nil // the store has it; another server may get the next report
		case now.Sub(c.LastSeen) >= idleAfter:
			delete(r.clients, key)
		}
	}
	return clients
}

// nextBatch makes the batch of what has been counted since the one before. It is empty if there is nothing to write.
func (r *reports) nextBatch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches++
	for k, sum := range r.evidence {
		r.batch = append(r.batch, policystore.Evidence{
			Rollout: k.rollout, Step: k.step, Revision: k.revision, Counters: *sum, Source: r.source, Batch: r.batches,
		})
	}
	r.evidence = nil
}

// putBack keeps clients that could not be written for the next flush.
func (r *reports) putBack(clients []policystore.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range clients {
		if c := r.clients[clients[i].Key()]; c != nil {
			c.dirty = true
			c.Reported = cmp.Or(c.Reported, clients[i].Reported)
		}
	}
}

// flushAll writes what was collected every second, and once more when ctx has ended.
func (h *Hub) flushAll(ctx context.Context) {
	ticker := time.NewTicker(flushInterval)
	defer ticker.Stop()
	failed := false
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
		err := h.flush(context.WithoutCancel(ctx))
		if err != nil && !failed {
			h.logger.Warn("reports of clients wait for the policy store", "error", err)
		}
		failed = err != nil
	}
}

func (h *Hub) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	clients := h.reported.take(time.Now())
	var faults []error
	var left []policystore.Client
	for page := range slices.Chunk(clients, pageSize) {
		if err := h.store.SaveClients(ctx, page); err != nil {
			faults, left = append(faults, err), append(left, page...)
		}
	}
	err := h.addBatch(ctx) // of the flush before, unless the store has confirmed it
	if err == nil {
		h.reported.nextBatch()
		err = h.addBatch(ctx)
	}
	h.reported.putBack(left)
	return errors.Join(append(faults, err)...)
}

// addBatch writes the batch of evidence, if there is one, and forgets it when the store has confirmed it.
func (h *Hub) addBatch(ctx context.Context) error {
	batch := h.reported.batch
	if len(batch) == 0 {
		return nil
	}
	if err := h.store.AddEvidence(ctx, batch); err != nil {
		return err
	}
	h.reported.batch = nil
	return nil
}
