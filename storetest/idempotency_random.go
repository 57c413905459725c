package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/idempotency"
)

func keyRandomCases() []keysCase {
	return []keysCase{{name: "I3/random operations agree with the model", run: func(s *keys) {
		// rapid must not see a *testing.T: it would ask for its deadline, which a bubble forbids.
		fewerChecks()
		rapid.Check(struct{ *testing.T }{s.T}, func(t *rapid.T) {
			m := &keyModel{s: s, t: t, records: map[idempotency.ID]*idempotency.Record{}}
			for range 3 {
				m.ids = append(m.ids, newKey())
			}
			t.Repeat(map[string]func(*rapid.T){
				"": m.compare, "begin": m.begin, "begin again": m.begin, "settle": m.settle, "renew": m.renew, "resolve": m.resolve, "clear": m.clear,
				"expire": m.expire, "lapse": m.lapse,
			})
		})
	}}}
}

// keyModel is what a store should hold: records moved by the pure functions of package idempotency. In virtual time its
// clock is the store's. In real time nothing lapses or expires while a run lasts, and times are taken over from the store.
type keyModel struct {
	s       *keys
	t       *rapid.T
	ids     []idempotency.ID
	records map[idempotency.ID]*idempotency.Record
	claims  []idempotency.Claim // every claim ever given
}

// span draws a duration: in virtual time a small multiple of a step, so that ends meet; in real time a very long one.
func (m *keyModel) span(t *rapid.T) time.Duration {
	if m.s.virtual {
		return time.Duration(rapid.IntRange(1, 4).Draw(t, "span")) * m.s.short
	}
	return long
}

func (m *keyModel) claim(t *rapid.T) idempotency.Claim {
	if len(m.claims) == 0 || rapid.IntRange(0, 9).Draw(t, "wrong") == 0 {
		return idempotency.Claim{ID: rapid.SampledFrom(m.ids).Draw(t, "id"), Owner: "nobody", Fence: 1}
	}
	return m.claims[len(m.claims)-1-rapid.IntRange(0, min(len(m.claims)-1, 5)).Draw(t, "claim")]
}

func (m *keyModel) settlement(t *rapid.T) idempotency.Settlement {
	settlement := idempotency.Settlement{
		State: rapid.SampledFrom([]idempotency.State{idempotency.Completed, idempotency.Failed, idempotency.Released}).Draw(t, "state"), TTL: m.span(t),
	}
	if settlement.HasResult = rapid.Bool().Draw(t, "has result"); settlement.HasResult {
		settlement.Result = rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "result")
	}
	if rapid.Bool().Draw(t, "failure") {
		settlement.Failure = &idempotency.Failure{Type: "t", Message: rapid.SampledFrom([]string{"", "m", "ü"}).Draw(t, "message")}
	}
	return settlement
}

func (m *keyModel) begin(t *rapid.T) {
	req := request(rapid.SampledFrom(m.ids).Draw(t, "id"))
	req.Fingerprint = rapid.SampledFrom([]string{"f", "f", "f", "g"}).Draw(t, "fingerprint")
	req.ReplaySafe = rapid.Bool().Draw(t, "replay safe")
	req.Lease = m.span(t)
	got, err := m.s.Begin(m.s.ctx, req)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	current := m.records[req.ID]
	want, write := idempotency.Begin(current, req, time.Now())
	if current == nil || current.Expired(time.Now()) && got.Record.Fence > current.Fence {
		want.Record.Fence = got.Record.Fence // by the store's clock where it had no record
	}
	if !m.s.virtual {
		want.Record, want.RetryAfter = timesOf(want.Record, got.Record), got.RetryAfter
	}
	noDiff(t, fmt.Sprintf("I3: begin of %+v", req), cmp.Diff(want, got, cmpopts.EquateEmpty()))
	if write {
		m.records[req.ID] = &want.Record
	}
	if got.Verdict == idempotency.Run {
		m.claims = append(m.claims, got.Record.Claim())
	}
}

func (m *keyModel) settle(t *rapid.T) {
	c, settlement := m.claim(t), m.settlement(t)
	err := m.s.Settle(m.s.ctx, c, settlement)
	next, write, want := idempotency.Settle(m.records[c.ID], c, settlement, time.Now())
	// A claim on what has expired: the store may have removed it.
	if old := m.records[c.ID]; want == nil && old.Expired(time.Now()) && errors.Is(err, idempotency.ErrFenced) {
		return
	}
	m.sameError(t, "I5: settle", err, want)
	if write {
		m.set(next)
	}
}

func (m *keyModel) renew(t *rapid.T) {
	c, lease := m.claim(t), m.span(t)
	err := m.s.Renew(m.s.ctx, c, lease)
	next, want := idempotency.Renew(m.records[c.ID], c, lease, time.Now())
	m.sameError(t, "I5: renew", err, want)
	if want == nil {
		m.set(next)
	}
}

func (m *keyModel) resolve(t *rapid.T) {
	c, settlement := m.claim(t), m.settlement(t)
	err := m.s.Resolve(m.s.ctx, c, settlement)
	next, want := idempotency.Resolve(m.records[c.ID], c, settlement, time.Now())
	m.sameError(t, "I4: resolve", err, want)
	if want == nil {
		m.set(next)
		m.claims = append(m.claims, next.Claim())
	}
}

func (m *keyModel) clear(t *rapid.T) {
	c := m.claim(t)
	err := m.s.Clear(m.s.ctx, c)
	r := m.records[c.ID]
	if r == nil || r.Claim() != c || r.Live(time.Now()) {
		m.sameError(t, "I5: clear", err, idempotency.ErrFenced)
		return
	}
	if !r.Expired(time.Now()) { // else it may have been removed before
		m.sameError(t, "I5: clear", err, nil)
	}
	delete(m.records, c.ID)
}

func (m *keyModel) expire(t *rapid.T) {
	if _, err := m.s.Expire(m.s.ctx, rapid.IntRange(1, 3).Draw(t, "limit")); err != nil {
		t.Fatalf("Expire: %v", err)
	}
}

func (m *keyModel) lapse(t *rapid.T) {
	if m.s.virtual {
		time.Sleep(m.span(t))
	}
}

func (m *keyModel) sameError(t *rapid.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// set keeps a record; in real time with the store's times.
func (m *keyModel) set(r idempotency.Record) {
	if !m.s.virtual {
		got, err := m.s.Get(m.s.ctx, r.ID)
		if err != nil {
			m.t.Fatalf("Get: %v", err)
		}
		r = timesOf(r, got)
	}
	m.records[r.ID] = &r
}

// timesOf is r with the times of another record, where both have one.
func timesOf(r, from idempotency.Record) idempotency.Record {
	for _, pair := range [][2]*time.Time{{&r.Lease, &from.Lease}, {&r.Created, &from.Created}, {&r.Completed, &from.Completed}, {&r.Expires, &from.Expires}} {
		if !pair[0].IsZero() && !pair[1].IsZero() {
			*pair[0] = *pair[1]
		}
	}
	return r
}

// compare compares all that the store holds with all that it should hold.
func (m *keyModel) compare(t *rapid.T) {
	for _, id := range m.ids {
		got, err := m.s.Get(m.s.ctx, id)
		want := m.records[id]
		if want == nil || want.Expired(time.Now()) {
			if !errors.Is(err, idempotency.ErrNotFound) {
				t.Fatalf("I6: %+v, %v; want ErrNotFound", got, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("Get: %v; want %+v", err, *want)
		}
		noDiff(t, fmt.Sprint("I2: ", id), cmp.Diff(*want, got, cmpopts.EquateEmpty()))
	}
}
