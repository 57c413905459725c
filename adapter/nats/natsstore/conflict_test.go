package natsstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestI3BothCodesOfAConflictRestartTheOperation(t *testing.T) {
	for code, want := range map[jetstream.ErrorCode]bool{
		jetstream.JSErrCodeStreamWrongLastSequence: true, jetstream.JSErrCodeStreamWrongLastSequenceConstant: true,
		jetstream.JSErrCodeStreamNotFound: false,
	} {
		err := fmt.Errorf("nats: %w", &jetstream.APIError{Code: 400, ErrorCode: code})
		if got := isConflict(err); got != want {
			t.Errorf("code %d: conflict is %t", code, got)
		}
		if got := refused(err); got == want {
			t.Errorf("code %d: refused is %t", code, got)
		}
	}
	if !isConflict(fmt.Errorf("x: %w", jetstream.ErrKeyExists)) {
		t.Error("an existing key is not a conflict")
	}
	if isConflict(errors.New("timeout")) {
		t.Error("another error is a conflict")
	}
}
