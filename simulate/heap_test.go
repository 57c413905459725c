package simulate

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type mark int

func (mark) act() {}

// TestTheHeapOrdersWhatIsLeft pushes events, removes some, and takes the first ones: in the order of their times, and of those at
// the same time, in that in which they were pushed.
func TestTheHeapOrdersWhatIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			at   time.Duration
			id   mark
			slot int
		}
		var h heap
		var model []entry
		for id := range mark(rapid.IntRange(0, 300).Draw(t, "operations")) {
			switch n := rapid.IntRange(0, 9).Draw(t, "operation"); {
			case n < 5 || len(model) == 0:
				at := time.Duration(rapid.IntRange(0, 20).Draw(t, "at"))
				model = append(model, entry{at, id, h.push(at, id)})
			case n < 8:
				i := rapid.IntRange(0, len(model)-1).Draw(t, "removed")
				h.remove(model[i].slot)
				model = slices.Delete(model, i, i+1)
			default:
				first := 0
				for i := range model {
					if model[i].at < model[first].at {
						first = i
					}
				}
				if at := h.first().at; at != model[first].at {
					t.Fatalf("first is at %v, want %v", at, model[first].at)
				}
				if got := h.take(); got != model[first].id {
					t.Fatalf("took %v, want %v", got, model[first].id)
				}
				model = slices.Delete(model, first, first+1)
			}
		}
	})
}
