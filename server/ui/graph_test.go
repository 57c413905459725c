package ui

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
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
