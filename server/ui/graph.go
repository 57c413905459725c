package ui

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/internal/lists"
)

// graph is a drawing of boxes in layers from left to right, and of the lines between them.
type graph struct {
	Name          string // of its region
	Text          string // the drawing in words
	Width, Height int
	Boxes         []box
	Lines         []string // paths of SVG
}

// Wide and High are the size of a box, and Inner and Low that of its outline.
func (graph) Wide() int  { return boxWidth }
func (graph) High() int  { return boxHeight }
func (graph) Inner() int { return boxWidth - 2 }
func (graph) Low() int   { return boxHeight - 2 }

// box is a box of a graph.
type box struct {
	Title, Note string // its two lines
	Full        string // what they cut short; default both lines
	Href        string
	State       string    // a job's state, which is its colour
	Bar         []barPart // the states of several jobs, in pixels
	Current     bool      // what the page is about
	X, Y        int

	layer int // counted from any number
}

// Sizes of a graph in pixels.
const (
	boxWidth   = 180
	boxHeight  = 46
	layerGap   = 44
	boxGap     = 14
	bendHeight = 4 // of the place where a line passes a layer
	graphEdge  = 6 // around the drawing, for the outline of what has the focus
)

// Bounds of a drawing.
const (
	titleRunes = 23 // of a box in the widest of the fonts that the style names; letters that are wider still are cut off
	noteRunes  = 25
	maxBoxes   = 300
	maxLines   = 1000
	maxBends   = 3000
)

// spot is a box, or the place where a line passes a layer.
type spot struct {
	box, layer int // box is -1 for a line
	up, down   []int
	place      int     // in its layer
	y          float64 // its middle
}

// drawGraph lays boxes out in their layers. lines are pairs of indexes of boxes, each from a lower layer to a higher one.
//
// The order within a layer is by the mean place of neighbours (the barycentre method of Sugiyama, Tagawa and Toda, "Methods for
// Visual Understanding of Hierarchical System Structures", 1981), in a few sweeps; a line over several layers has a place in each of them.
func drawGraph(boxes []box, lines [][2]int) graph {
	d := newDrawing(boxes, lines)
	for sweep := range 6 {
		d.order(sweep%2 == 0)
	}
	d.align()
	return d.graph()
}

type drawing struct {
	boxes  []box
	spots  []spot
	layers [][]int // spots
	paths  [][]int // spots of each line
}

func newDrawing(boxes []box, lines [][2]int) *drawing {
	d := &drawing{boxes: boxes}
	numbers := lists.Map(boxes, func(b box) int { return b.layer })
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	d.layers = make([][]int, len(numbers))
	for i, b := range boxes {
		layer, _ := slices.BinarySearch(numbers, b.layer)
		d.add(spot{box: i, layer: layer})
	}
	for _, l := range lines {
		d.connect(l[0], l[1])
	}
	return d
}

func (d *drawing) add(s spot) int {
	s.place = len(d.layers[s.layer])
	d.spots = append(d.spots, s)
	d.layers[s.layer] = append(d.layers[s.layer], len(d.spots)-1)
	return len(d.spots) - 1
}

// connect adds a line, with a bend in each layer that it passes.
func (d *drawing) connect(from, to int) {
	path := []int{from}
	if len(d.spots)-len(d.boxes) < maxBends {
		for layer := d.spots[from].layer + 1; layer < d.spots[to].layer; layer++ {
			path = append(path, d.add(spot{box: -1, layer: layer}))
		}
	}
	path = append(path, to)
	for i := 1; i < len(path); i++ {
		d.spots[path[i-1]].down = append(d.spots[path[i-1]].down, path[i])
		d.spots[path[i]].up = append(d.spots[path[i]].up, path[i-1])
	}
	d.paths = append(d.paths, path)
}

// sweep calls f for each layer but the first, from left to right or the other way, with the neighbours of a spot in the layers before.
func (d *drawing) sweep(right bool, f func(layer []int, neighbours func(int) []int)) {
	for i := 1; i < len(d.layers); i++ {
		if right {
			f(d.layers[i], func(s int) []int { return d.spots[s].up })
		} else {
			f(d.layers[len(d.layers)-1-i], func(s int) []int { return d.spots[s].down })
		}
	}
}

// order sorts layers by the mean place of neighbours.
func (d *drawing) order(right bool) {
	means := make([]float64, len(d.spots))
	d.sweep(right, func(layer []int, neighbours func(int) []int) {
		for _, s := range layer {
			means[s] = mean64(neighbours(s), float64(d.spots[s].place), func(n int) float64 { return float64(d.spots[n].place) })
		}
		slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(means[a], means[b]) })
		for place, s := range layer {
			d.spots[s].place = place
		}
	})
}

// mean64 is the mean of what f returns for a list, or what stands for an empty one.
func mean64(list []int, otherwise float64, f func(int) float64) float64 {
	if len(list) == 0 {
		return otherwise
	}
	sum := 0.0
	for _, n := range list {
		sum += f(n)
	}
	return sum / float64(len(list))
}

// align gives spots their heights: near their neighbours, in the order of their layer.
func (d *drawing) align() {
	for _, layer := range d.layers {
		d.spread(layer, make([]float64, len(layer)))
	}
	for pass := range 3 {
		d.sweep(pass%2 == 0, func(layer []int, neighbours func(int) []int) {
			wanted := make([]float64, len(layer))
			for i, s := range layer {
				wanted[i] = mean64(neighbours(s), d.spots[s].y, func(n int) float64 { return d.spots[n].y })
			}
			d.spread(layer, wanted)
		})
	}
}

// spread places the spots of a layer as near to where they are wanted as the distance between them allows.
func (d *drawing) spread(layer []int, wanted []float64) {
	shift := 0.0
	for i, s := range layer {
		y := wanted[i]
		if i > 0 {
			before := &d.spots[layer[i-1]]
			y = max(y, before.y+(before.height()+d.spots[s].height())/2+boxGap)
		}
		d.spots[s].y = y
		shift += wanted[i] - y
	}
	for _, s := range layer {
		d.spots[s].y += shift / float64(len(layer))
	}
}

func (s *spot) height() float64 {
	if s.box < 0 {
		return bendHeight
	}
	return boxHeight
}

// graph returns the drawing with its origin at the top left.
func (d *drawing) graph() graph {
	top, bottom := math.Inf(1), math.Inf(-1)
	for _, s := range d.spots {
		top, bottom = min(top, s.y-s.height()/2), max(bottom, s.y+s.height()/2)
	}
	g := graph{Name: "Graph", Text: "Boxes from left to right", Boxes: d.boxes, Width: len(d.layers)*(boxWidth+layerGap) - layerGap + 2*graphEdge, Height: int(math.Ceil(bottom-top)) + 2*graphEdge}
	for i := range d.spots {
		s := &d.spots[i]
		if s.y -= top - graphEdge; s.box >= 0 {
			b := &g.Boxes[s.box]
			b.X, b.Y = d.x(s), int(math.Round(s.y))-boxHeight/2
			b.Full = cmp.Or(b.Full, b.Title+", "+b.Note)
			b.Title, b.Note = cut(b.Title, titleRunes), cut(b.Note, noteRunes)
		}
	}
	g.Lines = lists.Map(d.paths, d.path)
	return g
}

// cut shortens a text to n characters.
func cut(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}

func (d *drawing) x(s *spot) int { return graphEdge + s.layer*(boxWidth+layerGap) }

// path draws a line: a curve from layer to layer, and straight on where it passes one.
func (d *drawing) path(path []int) string {
	var b strings.Builder
	for i := 1; i < len(path); i++ {
		from, to := &d.spots[path[i-1]], &d.spots[path[i]]
		x, end := d.x(from)+boxWidth, d.x(to)
		if i == 1 {
			fmt.Fprintf(&b, "M%d %.0f", x, from.y)
		} else {
			fmt.Fprintf(&b, "H%d", x)
		}
		fmt.Fprintf(&b, "C%d %.0f %d %.0f %d %.0f", x+layerGap/2, from.y, end-layerGap/2, to.y, end, to.y)
	}
	return b.String()
}
