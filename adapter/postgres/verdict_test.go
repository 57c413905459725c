package postgres

import (
	"errors"
	"testing"
)

func TestJ7SettlementThatWasNotWrittenIsNeverReportedAsWritten(t *testing.T) {
	if err := (&leaseState{true, true, true, true, false}).err(); !errors.Is(err, errLive) {
		t.Errorf("a live lease without a settlement: %v", err)
	}
	if err := (&leaseState{true, true, true, true, true}).err(); err != nil {
		t.Errorf("a repetition: %v", err)
	}
}
