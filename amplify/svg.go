package amplify

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
)

// The drawing's measures, in pixels.
const (
	boxWidth, boxHeight = 180, 54
	columnGap, rowGap   = 190, 34
	margin              = 20
	maxLabel            = 24 // characters
)

const style = `
text { font: 13px system-ui, sans-serif; fill: #1a1a1a }
.small { font-size: 11px; fill: #555 }
rect { fill: #f4f6f8; stroke: #7a8a99 }
rect.hot { fill: #fdecea; stroke: #b3261e }
line { stroke: #7a8a99; stroke-width: 1.5 }
.halo { paint-order: stroke; stroke: #fff; stroke-width: 4px }
.ground { fill: #fff; stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #eee } .small { fill: #b5bdc5 }
rect { fill: #20262c; stroke: #93a1ad } rect.hot { fill: #4a1c19; stroke: #f2b8b5 }
line { stroke: #93a1ad } .halo { stroke: #14181b } .ground { fill: #14181b; stroke: none }
}`

// hot is the amplification from which a node is drawn as a danger: more than calls alone may make (policy.CallLimits).
const hot = 10

// SVG draws the graph from left to right: boxes with the worst, the budgeted and the expected amplification of each node, and lines
// with the attempts of each call. It is readable in light and dark. Text of the graph is escaped.
func (m *Map) SVG() []byte {
	type point struct{ x, y int }
	places, rows := map[string]point{}, map[int]int{}
	width, height := 0, 0
	for _, n := range m.Nodes {
		p := point{margin + n.layer*(boxWidth+columnGap), margin + rows[n.layer]*(boxHeight+rowGap)}
		rows[n.layer]++
		places[n.Name] = p
		width, height = max(width, p.x+boxWidth+margin), max(height, p.y+boxHeight+margin)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`, width, height, width, height)
	fmt.Fprintf(&b, "<title>Amplification: worst %s, after budgets %s, expected %s</title><style>%s\n</style>\n",
		number(m.Amplification.Worst), number(m.Amplification.Budgeted), number(m.Amplification.Expected), style)
	fmt.Fprintf(&b, `<rect class="ground" width="%d" height="%d"/>`+"\n", width, height)
	for _, e := range m.Edges {
		from, to := places[e.From], places[e.To]
		x1, y1, x2, y2 := from.x+boxWidth, from.y+boxHeight/2, to.x, to.y+boxHeight/2
		fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d"/>`, x1, y1, x2, y2)
		fmt.Fprintf(&b, `<text class="small halo" text-anchor="middle" x="%d" y="%d"><title>%s</title>%s</text>`+"\n",
			x2-columnGap/2, y2-(y2-y1)*columnGap/2/max(x2-x1, 1)-5, escape(e.Key), escape(e.label()))
	}
	for _, n := range m.Nodes {
		p, class := places[n.Name], ""
		if n.Amplification.Worst > hot {
			class = ` class="hot"`
		}
		fmt.Fprintf(&b, `<rect%s x="%d" y="%d" width="%d" height="%d" rx="6"/>`, class, p.x, p.y, boxWidth, boxHeight)
		fmt.Fprintf(&b, `<text x="%d" y="%d"><title>%s</title>%s</text>`, p.x+10, p.y+22, escape(n.Name), escape(cut(n.Name)))
		fmt.Fprintf(&b, `<text class="small" x="%d" y="%d">worst %s · budgets %s · mean %s</text>`+"\n", p.x+10, p.y+42,
			number(n.Amplification.Worst), number(n.Amplification.Budgeted), number(n.Amplification.Expected))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (e *Edge) label() string {
	return fmt.Sprintf("%s × %s attempts", number(e.Calls), number(e.Attempts.Worst))
}

// cut shortens a name for its box; the title holds all of it.
func cut(name string) string {
	if r := []rune(name); len(r) > maxLabel {
		return string(r[:maxLabel-1]) + "…"
	}
	return name
}

// number writes whole numbers exactly and others with three digits.
func number(f float64) string {
	if f == float64(int64(f)) {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}
