package simulate

import (
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
		take := func(i int) {
			if got := h.remove(model[i].slot); got != model[i].id {
				t.Fatalf("removed %v, want %v", got, model[i].id)
			}
			model = append(model[:i], model[i+1:]...)
		}
		for id := range mark(rapid.IntRange(0, 300).Draw(t, "operations")) {
			switch n := rapid.IntRange(0, 9).Draw(t, "operation"); {
			case n < 5 || len(model) == 0:
				at := time.Duration(rapid.IntRange(0, 20).Draw(t, "at"))
				model = append(model, entry{at, id, h.push(at, id)})
			case n < 8:
				take(rapid.IntRange(0, len(model)-1).Draw(t, "removed"))
			default:
				first := 0
				for i := range model {
					if model[i].at < model[first].at {
						first = i
					}
				}
				if h.list[0].slot != model[first].slot {
					t.Fatalf("first is %+v, want %+v", h.list[0], model[first])
				}
				take(first)
			}
		}
	})
}
