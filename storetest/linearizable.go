package storetest

import (
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"
)

// partition divides a history into operations that do not affect each other, by a key of their inputs.
func partition(key func(input any) string) func([]porcupine.Operation) [][]porcupine.Operation {
	return func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		for _, op := range history {
			by[key(op.Input)] = append(by[key(op.Input)], op)
		}
		return slices.Collect(maps.Values(by))
	}
}

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
