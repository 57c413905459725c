package storetest

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/idempotency"
)

// IdempotencyOptions says how the suite opens and runs a store.
type IdempotencyOptions struct {
	// Open returns a store that implements idempotency.Admin, too, and closes it in the test's cleanup. It may return one
	// store on the same data each time: cases use keys of their own. Required.
	Open func(t *testing.T) idempotency.Store
	// Second opens another handle on the data of a store that Open returned, as another process would, and closes it in the
	// test's cleanup. Nil for stores that processes cannot share.
	Second func(t *testing.T, first idempotency.Store) idempotency.Store
	// Process returns a command that opens the data of a store that Open returned and calls [IdempotencyProcess]; the suite
	// adds to its environment, and starts and kills it. Nil for stores that processes cannot share.
	Process func(t *testing.T, first idempotency.Store) *exec.Cmd
	// Bubble runs a case in virtual time: synctest.Test for stores that take their time from package time. Nil runs in
	// real time.
	Bubble func(t *testing.T, run func(t *testing.T))
	// Advance moves the clock of the stores by d at once, for the rest of the test: for stores that take their time from a
	// server. Nil waits.
	Advance func(t *testing.T, d time.Duration)
	// Short is the lease and the time to live of cases that wait for its end. Default: 10 s in a bubble, 10 min with
	// Advance, and otherwise 500 ms. Unless it runs in a bubble, no operation may take as long as half of it.
	Short time.Duration
}

// Idempotency checks that a store keeps the contract of idempotency.Store and idempotency.Admin.
func Idempotency(t *testing.T, o IdempotencyOptions) {
	runCases(t, timing{o.Bubble, o.Advance, o.Short}, func(s suite) *keys { return openKeys(s, o) },
		beginCases(), lapseCases(), settleCases(), keyValueCases(), expiryCases(), resolveCases(), listCases(), keyConcurrencyCases(),
		keyRandomCases(), processCases(),
	)
}

type keysCase = suiteCase[*keys]

// keys is a store of idempotency records under test.
type keys struct {
	suite
	idempotency.Store
	idempotency.Admin

	options IdempotencyOptions
}

func openKeys(s suite, o IdempotencyOptions) *keys {
	s.Helper()
	store := o.Open(s.T)
	admin, ok := store.(idempotency.Admin)
	if !ok {
		s.Fatalf("%T does not implement idempotency.Admin", store)
	}
	return &keys{suite: s, Store: store, Admin: admin, options: o}
}

// newKey returns an ID that no other case uses, in this process or another.
func newKey() idempotency.ID {
	return idempotency.ID{Tenant: "tenant", Operation: "op", Key: fmt.Sprintf("%s-%d", run, ids.Add(1))}
}

// run distinguishes the test binaries that share a store.
var run = fmt.Sprintf("%x", time.Now().UnixNano())

// request returns a request with a long lease and a new owner.
func request(id idempotency.ID) idempotency.BeginRequest {
	return idempotency.BeginRequest{
		ID: id, Fingerprint: "f", Owner: fmt.Sprintf("owner-%s-%d", run, ids.Add(1)), Lease: long, PolicyHash: "p",
	}
}

// replaySafe returns a request that may take over a lapsed claim.
func replaySafe(id idempotency.ID) idempotency.BeginRequest {
	r := request(id)
	r.ReplaySafe = true
	return r
}

// shortLease returns a request whose lease ends during the case.
func (s *keys) shortLease(id idempotency.ID) idempotency.BeginRequest {
	r := request(id)
	r.Lease = s.short
	return r
}

// begin begins, and fails the case unless the verdict is as wanted.
func (s *keys) begin(req idempotency.BeginRequest, want idempotency.Verdict) idempotency.Begun {
	s.Helper()
	b, err := s.Begin(s.ctx, req)
	s.need("Begin", err)
	if b.Verdict != want {
		s.Fatalf("Begin: verdict %s, want %s; the record is %+v", b.Verdict, want, b.Record)
	}
	return b
}

// claim begins a free key and returns the claim.
func (s *keys) claim(req idempotency.BeginRequest) idempotency.Claim {
	s.Helper()
	return s.claimOf(s.begin(req, idempotency.Run), req)
}

// claimOf checks that a granted claim is the request's.
func (s *keys) claimOf(b idempotency.Begun, req idempotency.BeginRequest) idempotency.Claim {
	s.Helper()
	if b.Record.ID != req.ID || b.Record.Owner != req.Owner || b.Record.State != idempotency.InFlight || b.Record.Fence < 1 {
		s.Fatalf("claimed %+v for %+v", b.Record, req)
	}
	return b.Record.Claim()
}

// got returns the record of an ID, which must exist.
func (s *keys) got(id idempotency.ID) idempotency.Record {
	s.Helper()
	r, err := s.Get(s.ctx, id)
	s.need(fmt.Sprintf("Get(%s)", id), err)
	return r
}

// absent fails the case unless an ID has no record.
func (s *keys) absent(id idempotency.ID) {
	s.Helper()
	if r, err := s.Get(s.ctx, id); !errors.Is(err, idempotency.ErrNotFound) {
		s.Fatalf("Get(%s): %+v, %v; want ErrNotFound", id, r, err)
	}
}

// same fails the case unless two records are equal.
func (s *keys) same(want, got idempotency.Record) {
	s.Helper()
	noDiff(s, "record", cmp.Diff(want, got, cmpopts.EquateEmpty()))
}

// unchanged runs f and checks that the record of an ID is the same before and after.
func (s *keys) unchanged(id idempotency.ID, f func()) {
	s.Helper()
	before := s.got(id)
	f()
	s.same(before, s.got(id))
}

// Settlements that outlive the case.
func completed(result string) idempotency.Settlement {
	return idempotency.Settlement{State: idempotency.Completed, HasResult: true, Result: []byte(result), TTL: long}
}

func failed(message string) idempotency.Settlement {
	return idempotency.Settlement{State: idempotency.Failed, Failure: &idempotency.Failure{Type: "t", Message: message}, TTL: long}
}

func released() idempotency.Settlement {
	return idempotency.Settlement{State: idempotency.Released, Failure: &idempotency.Failure{Type: "t", Message: "try again"}, TTL: long}
}

// settlements returns one of each kind.
func settlements() []idempotency.Settlement {
	return []idempotency.Settlement{completed("r"), failed("e"), released()}
}

// settled returns a new record that was claimed and settled.
func (s *keys) settled(settlement idempotency.Settlement) idempotency.Record {
	s.Helper()
	c := s.claim(request(newKey()))
	s.must(s.Settle(s.ctx, c, settlement), nil)
	return s.got(c.ID)
}

// lapsed returns a new record that was claimed and whose lease has ended.
func (s *keys) lapsed() idempotency.Record {
	s.Helper()
	c := s.claim(s.shortLease(newKey()))
	s.lapse(s.short)
	return s.got(c.ID)
}

// unknown returns a new record whose outcome is unknown.
func (s *keys) unknown() idempotency.Record {
	s.Helper()
	r := s.lapsed()
	s.begin(request(r.ID), idempotency.Undecidable)
	return s.got(r.ID)
}

// clock returns the time by the store's clock, from a claim of a new key.
func (s *keys) clock() time.Time {
	s.Helper()
	return s.begin(request(newKey()), idempotency.Run).Record.Created
}

// edges checks that a period ends exactly on time. start begins the period and returns its end and a probe that reports whether
// the period is over; the probe may be repeated until it is true. In virtual time edges probes a millisecond and a microsecond
// before the end, and then at the end, or a microsecond or a millisecond later. In real time it probes at
// once and then, from shortly before the end on, as fast as possible, and reads the store's clock between probes.
func (s *keys) edges(start func() (end time.Time, over func() bool)) {
	s.Helper()
	if !s.virtual {
		end, over := start()
		if left := end.Sub(s.clock()) - time.Second; s.advance != nil && left > 0 {
			s.advance(s.T, left)
		}
		s.edge(end, over)
		return
	}
	for _, late := range []time.Duration{0, time.Microsecond, time.Millisecond} {
		end, over := start()
		for _, early := range []time.Duration{time.Millisecond, time.Microsecond} {
			time.Sleep(time.Until(end.Add(-early)))
			if over() {
				s.Fatalf("over %s before its end", early)
			}
		}
		time.Sleep(time.Until(end.Add(late)))
		if !over() {
			s.Fatalf("not over %s after its end", late)
		}
	}
}

func (s *keys) edge(end time.Time, over func() bool) {
	s.Helper()
	for before := s.clock(); ; {
		ended, after := over(), s.clock()
		switch {
		case ended && after.Before(end):
			s.Fatalf("over although the store's clock was %s before its end afterwards", end.Sub(after))
		case ended:
			return
		case !before.Before(end):
			s.Fatalf("not over although the store's clock was %s past its end before", before.Sub(end))
		}
		before = after
		time.Sleep(end.Sub(after) - 20*time.Millisecond)
	}
}

// together runs f on many goroutines at once and waits for them. If there is a second handle, half of them use it.
func (s *keys) together(n int, f func(store idempotency.Store, i int)) {
	s.Helper()
	stores := []idempotency.Store{s.Store, s.Store}
	if s.options.Second != nil {
		stores[1] = s.options.Second(s.T, s.Store)
	}
	atOnce(n, func(i int) { f(stores[i%2], i) })
}
