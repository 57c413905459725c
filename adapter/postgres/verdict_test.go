package postgres

import (
	"errors"
	"testing"
)

func TestJ7SettlementThatWasNotWrittenIsNeverReportedAsWritten(t *testing.T) {
	if err := (&leaseState{running: true, live: true, holds: true, exists: true}).err(); !errors.Is(err, errLive) {
		t.Errorf("a live lease without a settlement: %v", err)
	}
	if err := (&leaseState{running: true, live: true, holds: true, exists: true, repeats: true}).err(); err != nil {
		t.Errorf("a repetition: %v", err)
	}
}
