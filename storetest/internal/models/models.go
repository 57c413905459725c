package models

import (
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// slack covers the truncation of stored times.
const slack = int64(time.Millisecond)

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
