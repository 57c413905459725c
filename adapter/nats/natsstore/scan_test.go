package natsstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/idempotency"
)

// TestI2AScanReadsARecordThatIsRenewedMeanwhile has more records than the client fetches at once, so that the server moves the renewed
// one before it is sent.
func TestI2AScanReadsARecordThatIsRenewedMeanwhile(t *testing.T) {
	db, err := Open(t.Context(), natstest.Start(t, func(*server.Options) {}).ClientURL(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := db.Idempotency()
	const records = 1500
	var last idempotency.Claim
	for i := range records {
		b, err := s.Begin(t.Context(), idempotency.BeginRequest{ID: idempotency.ID{Key: fmt.Sprint(i)}, Owner: "o", Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		last = b.Record.Claim()
	}
	found := map[string]bool{}
	err = s.bucket.scan(t.Context(), 1, false, func(_ uint64, m jetstream.Msg) error {
		found[m.Subject()] = true
		if len(found) > 1 {
			return nil
		}
		return s.Renew(t.Context(), last, time.Hour)
	})
	if err != nil || len(found) != records || !found[s.subject(last.ID)] {
		t.Errorf("%d of %d records, the renewed one: %v, %v", len(found), records, found[s.subject(last.ID)], err)
	}
}
