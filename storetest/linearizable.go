package storetest

import (
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"
)

// explained fails the test unless an order of the operations explains the answers.
func explained(t rapid.TB, model porcupine.Model, history []porcupine.Operation) {
	t.Helper()
	switch porcupine.CheckOperationsTimeout(model, history, time.Minute) {
	case porcupine.Illegal:
		t.Error("no order of the operations explains the answers")
	case porcupine.Unknown:
		t.Error("the check did not end within a minute")
	}
}
