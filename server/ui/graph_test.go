package ui

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policy"
)

// TestU2BoxesOfAGraphDoNotOverlapAndStayWhereTheyAre draws random graphs.
func TestU2BoxesOfAGraphDoNotOverlapAndStayWhereTheyAre(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		var boxes []box
		var lines [][2]int
		layers := 1 + random.IntN(8)
		for i := range 1 + random.IntN(60) {
			boxes = append(boxes, box{Title: fmt.Sprint(i), layer: 1 + random.IntN(layers)})
		}
		for range random.IntN(120) {
			from, to := random.IntN(len(boxes)), random.IntN(len(boxes))
			if boxes[from].layer < boxes[to].layer {
				lines = append(lines, [2]int{from, to})
			}
		}
		g := drawGraph(append([]box(nil), boxes...), lines)
		for i, a := range g.Boxes {
			if a.X < 0 || a.Y < 0 || a.X+boxWidth > g.Width || a.Y+boxHeight > g.Height {
				t.Fatalf("seed %d: box %d at %d, %d is outside of %d by %d", seed, i, a.X, a.Y, g.Width, g.Height)
			}
			for j, b := range g.Boxes[:i] {
				if a.X == b.X && max(a.Y-b.Y, b.Y-a.Y) < boxHeight {
					t.Fatalf("seed %d: boxes %d and %d overlap: %+v %+v", seed, i, j, a, b)
				}
				if (a.layer < b.layer) != (a.X < b.X) {
					t.Fatalf("seed %d: box %d of layer %d is at %d, and box %d of layer %d at %d", seed, i, a.layer, a.X, j, b.layer, b.X)
				}
			}
		}
		if len(g.Lines) != len(lines) {
			t.Fatalf("seed %d: %d lines of %d", seed, len(g.Lines), len(lines))
		}
		for i := range boxes { // a state changes, and nothing moves
			boxes[i].State = "dead"
		}
		again := drawGraph(boxes, lines)
		for i := range again.Boxes {
			if diff := cmp.Diff([]int{g.Boxes[i].X, g.Boxes[i].Y}, []int{again.Boxes[i].X, again.Boxes[i].Y}); diff != "" {
				t.Fatalf("seed %d: box %d has moved: %s", seed, i, diff)
			}
		}
	}
}

// TestU2WaitsThatSaturateAreDrawnWithinTheDrawing: the waits of a step without a cap grow up to the longest duration.
func TestU2WaitsThatSaturateAreDrawnWithinTheDrawing(t *testing.T) {
	for _, jitter := range []policy.Jitter{policy.JitterNone, policy.JitterFull, policy.JitterProportional, policy.JitterDecorrelated} {
		d := newDelays(&policy.Retry{
			MaxAttempts: 1000, InitialBackoff: time.Hour, BackoffMultiplier: 10, Jitter: jitter, JitterFactor: 0.1, OverallTimeout: 48 * time.Hour,
		})
		if d.TotalHigh != math.MaxInt64 || !d.Waits[len(d.Waits)-1].Late {
			t.Errorf("%s: all waits take up to %v, late %v", jitter, d.TotalHigh, d.Waits[len(d.Waits)-1].Late)
		}
		for _, w := range d.Waits {
			if w.From < 0 || w.From > w.Middle || w.Middle > w.To || w.FromX < leftMargin || w.FromX+w.Wide > leftMargin+spanArea+2 {
				t.Errorf("%s: retry %d after %v to %v, drawn from %v for %v", jitter, w.Retry, w.From, w.To, w.FromX, w.Wide)
			}
		}
	}
}
