package idempotency_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/idempotency"
)

// TestI4UnknownOutcomesAreListedWithoutKnowingTheirKeys: a filter for state unknown also selects expired claims, and a filter for
// in_flight only live ones.
func TestI4UnknownOutcomesAreListedWithoutKnowingTheirKeys(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	record := func(tenant, operation, key string, s idempotency.State, lease, expires time.Duration) idempotency.Record {
		r := idempotency.Record{ID: idempotency.ID{Tenant: tenant, Operation: operation, Key: key}, State: s}
		if lease != 0 {
			r.Lease = now.Add(lease)
		}
		if expires != 0 {
			r.Expires = now.Add(expires)
		}
		return r
	}
	records := []idempotency.Record{
		record("", "", "live", idempotency.InFlight, time.Second, 0), record("", "", "lapsed", idempotency.InFlight, -time.Second, 0),
		record("", "", "unknown", idempotency.Unknown, 0, 0), record("acme", "", "completed", idempotency.Completed, 0, time.Hour),
		record("acme", "charge", "failed", idempotency.Failed, 0, time.Hour), record("", "charge", "released", idempotency.Released, 0, time.Hour),
		record("acme", "charge", "expired", idempotency.Completed, 0, -time.Hour), record("acme", "charge", "expires now", idempotency.Failed, 0, 0),
	}
	records[len(records)-1].Expires = now
	for _, c := range []struct {
		filter idempotency.Filter
		want   []string
	}{
		{idempotency.Filter{}, []string{"live", "lapsed", "unknown", "completed", "failed", "released"}},
		{idempotency.Filter{State: idempotency.InFlight}, []string{"live"}},
		{idempotency.Filter{State: idempotency.Unknown}, []string{"lapsed", "unknown"}},
		{idempotency.Filter{State: idempotency.Completed}, []string{"completed"}},
		{idempotency.Filter{State: idempotency.Released}, []string{"released"}},
		{idempotency.Filter{Tenant: "acme"}, []string{"completed", "failed"}},
		{idempotency.Filter{Operation: "charge"}, []string{"failed", "released"}},
		{idempotency.Filter{Tenant: "acme", Operation: "charge", State: idempotency.Failed}, []string{"failed"}},
		{idempotency.Filter{Tenant: "acme", Operation: "refund"}, nil},
	} {
		if err := c.filter.Validate(); err != nil {
			t.Error(err)
		}
		var got []string
		for _, r := range records {
			if c.filter.Match(&r, now) {
				got = append(got, r.Key)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v: %s", c.filter, diff)
		}
	}
	if err := (idempotency.Filter{State: "done"}).Validate(); err == nil ||
		err.Error() != `idempotency: state "done": use in_flight, completed, failed, released or unknown` {
		t.Error(err)
	}
}

func TestRecordsAreOrderedByTenantOperationAndKey(t *testing.T) {
	sorted := []idempotency.ID{{}, {Key: "b"}, {Operation: "a"}, {Operation: "a", Key: "a"}, {Tenant: "A", Operation: "z"}, {Tenant: "a", Key: "z"}, {Tenant: "a", Operation: "a"}}
	shuffled := slices.Clone(sorted)
	slices.Reverse(shuffled)
	slices.SortFunc(shuffled, idempotency.ID.Compare)
	if diff := cmp.Diff(sorted, shuffled); diff != "" {
		t.Error(diff)
	}
	if sorted[3].Compare(sorted[3]) != 0 {
		t.Error("an ID differs from itself")
	}
}

// TestI5OnlyTheHolderOfALiveClaimRenews checks that any other renewal is fenced and writes nothing.
func TestI5OnlyTheHolderOfALiveClaimRenews(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	held := idempotency.Record{ID: idempotency.ID{Key: "k"}, State: idempotency.InFlight, Owner: "o", Fence: 2, Lease: now.Add(time.Second)}
	next, err := idempotency.Renew(&held, held.Claim(), time.Minute, now)
	want := held
	want.Lease = now.Add(time.Minute)
	if diff := cmp.Diff(want, next); err != nil || diff != "" {
		t.Error(err, diff)
	}
	unknown, older, other := held, held.Claim(), held.Claim()
	unknown.State = idempotency.Unknown
	older.Fence--
	other.Owner = "another"
	for name, c := range map[string]struct {
		current *idempotency.Record
		claim   idempotency.Claim
	}{"no record": {nil, held.Claim()}, "an older fence": {&held, older}, "another owner": {&held, other}, "not in flight": {&unknown, held.Claim()}} {
		if next, err := idempotency.Renew(c.current, c.claim, time.Minute, now); err != idempotency.ErrFenced || next.Key != "" {
			t.Errorf("%s: %+v, %v", name, next, err)
		}
	}
}
