package postgres

import (
	"errors"
	"testing"
)

func TestJ7SettlementThatWasNotWrittenIsNeverReportedAsWritten(t *testing.T) {
	if err := verdict(true, true, true, true, false); !errors.Is(err, errLive) {
		t.Errorf("a live lease without a settlement: %v", err)
	}
	if err := verdict(true, true, true, true, true); err != nil {
		t.Errorf("a repetition: %v", err)
	}
}
