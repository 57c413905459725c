package policyfile

import (
	"cmp"
	"fmt"
	"slices"
)

// Graph is a declared call graph: which service calls which, how often per request, and under which policy.
type Graph struct {
	// Version of the graph's language; always 1.
	Version int `json:"version"`
	// Nodes names the services.
	Nodes []string `json:"nodes"`
	// Edges are the calls between them.
	Edges []Edge `json:"edges"`
}

// Edge is a call that one service makes to another.
type Edge struct {
	// From names the node that calls.
	From string `json:"from"`
	// To names the node that is called.
	To string `json:"to"`
	// Key of the policy that governs the call. Give either the key or attempts.
	Key string `json:"key,omitempty"`
	// Attempts is max_attempts of a call that no policy of the document governs.
	Attempts int `json:"attempts,omitempty" check:"min=1,max=1000"`
	// Calls is how many of these calls one request to From makes on average. Default 1.
	Calls float64 `json:"calls" check:"min=0.001,max=1000000"`
	// Failures is the share of attempts that fail, for the expected amplification. Default 0.
	Failures float64 `json:"failures" check:"min=0,max=1"`

	// Place is the edge in its file, a fault without a problem.
	Place Fault `json:"-"`
}

// maxEdges bounds the edges of a graph.
const maxEdges = 10_000

// ParseGraph reads a call graph in YAML or JSON, as strictly as [Parse] reads a document and with the same limits. A refused
// graph gives an [*Error] with all of its faults. A graph lists a node once, and has at most 10,000 edges and no cycle: around a
// cycle, requests would multiply without end.
func ParseGraph(name string, data []byte) (*Graph, error) {
	g := &Graph{}
	d, err := Embed(name, data, g, Options{})
	if err != nil {
		return nil, err
	}
	var refused *Error
	listed := map[string]bool{}
	for i, name := range g.Nodes {
		if listed[name] {
			refused = d.Refuse(fmt.Sprintf("nodes[%d]", i), fmt.Sprintf("%q is listed twice", short(name)), "remove one of the two")
		}
		listed[name] = true
	}
	slices.Sort(g.Nodes)
	if len(g.Edges) == 0 || len(g.Edges) > maxEdges {
		return nil, d.Refuse("edges", fmt.Sprintf("%d edges", len(g.Edges)), fmt.Sprintf("write 1 to %d", maxEdges))
	}
	for i := range g.Edges {
		e := &g.Edges[i]
		e.Place = d.LocatePath(fmt.Sprintf("edges[%d]", i))
		e.Calls = cmp.Or(e.Calls, 1)
		if (e.Key == "") == (e.Attempts == 0) {
			refused = d.Refuse(e.Place.Path, "needs either key or attempts", "name the policy of the call, or say how many attempts it makes")
		}
		for _, end := range []struct{ field, node string }{{"from", e.From}, {"to", e.To}} {
			if _, known := slices.BinarySearch(g.Nodes, end.node); !known {
				remedy := orElse(end.node, g.Nodes, "list it under nodes")
				refused = d.Refuse(e.Place.Path+"."+end.field, fmt.Sprintf("unknown node %q", short(end.node)), remedy)
			}
		}
	}
	if i := g.cycle(); i >= 0 && refused == nil {
		e := g.Edges[i]
		refused = d.Refuse(e.Place.Path, fmt.Sprintf("the call from %q to %q closes a cycle", short(e.From), short(e.To)), "remove one of its calls")
	}
	if refused != nil {
		return nil, refused
	}
	return g, nil
}

// cycle returns the index of an edge that closes a cycle, or -1.
func (g *Graph) cycle() int {
	const open, done = 1, 2
	out := map[string][]int{}
	for i, e := range g.Edges {
		out[e.From] = append(out[e.From], i)
	}
	state := map[string]int{}
	var visit func(node string) int
	visit = func(node string) int {
		state[node] = open
		for _, i := range out[node] {
			switch state[g.Edges[i].To] {
			case open:
				return i
			case done:
				continue
			}
			if found := visit(g.Edges[i].To); found >= 0 {
				return found
			}
		}
		state[node] = done
		return -1
	}
	for _, e := range g.Edges {
		if state[e.From] == 0 {
			if found := visit(e.From); found >= 0 {
				return found
			}
		}
	}
	return -1
}
