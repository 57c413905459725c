package amplify

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// Requests is a number of requests under each of the assumptions of the package documentation.
type Requests struct {
	// Plain is the number without any retry or hedge.
	Plain float64 `json:"plain"`
	// Worst is the number if every attempt fails.
	Worst float64 `json:"worst"`
	// Budgeted is the worst case in the long run after budgets.
	Budgeted float64 `json:"budgeted"`
	// Expected is the mean for the declared or recorded shares of failures.
	Expected float64 `json:"expected"`
	// ExpectedBudgeted is Expected after budgets.
	ExpectedBudgeted float64 `json:"expected_budgeted"`
}

// Edge is a call of the graph.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
	Key  string `json:"key,omitempty"`
	// Calls per request of From.
	Calls float64 `json:"calls"`
	// Attempts of one call. Its Plain is 1.
	Attempts Requests `json:"attempts"`
	// Requests that reach To over this edge per request at the entries.
	Requests Requests `json:"requests"`
}

// Node is a service of the graph.
type Node struct {
	Name string `json:"name"`
	// Requests that reach the node; 1 for an entry.
	Requests Requests `json:"requests"`
	// Amplification is Requests divided by those without retries. Its Plain is 1.
	Amplification Requests `json:"amplification"`
	layer         int
}

// Map is a call graph with its amplification.
type Map struct {
	Edges []Edge `json:"edges"`
	// Nodes in an order in which every call leads to a later one.
	Nodes []Node `json:"nodes"`
	// Amplification is the highest of all nodes, separately for each assumption.
	Amplification Requests `json:"amplification"`
}

// New multiplies along a graph from [policyfile.ParseGraph], which has no cycle. work returns the work of a key; it is asked for
// edges that name one. Budgets are those of the document of the policies.
func New(g *policyfile.Graph, budgets map[string]policy.Budget, work func(key string) (Work, error)) (*Map, error) {
	if g == nil {
		return nil, errors.New("amplify: New: the graph is nil")
	}
	m := &Map{Edges: make([]Edge, 0, len(g.Edges)), Amplification: ones}
	works := make([]Work, len(g.Edges))
	for i, e := range g.Edges {
		if e.Key == "" {
			continue
		}
		var err error
		if works[i], err = work(e.Key); err != nil {
			return nil, fmt.Errorf("amplify: call from %s to %s: %w", e.From, e.To, err)
		}
	}
	pools := newPools(g, budgets, works)
	for i, e := range g.Edges {
		l := Load{Attempts: e.Attempts, Groups: e.Attempts, Budgeted: float64(e.Attempts)}
		if e.Key != "" {
			extra := works[i].Policy.Hedge.MaxExtraLoad * pools.keys[pool{e.From, e.Key}] / e.Calls
			l = works[i].load(func(ref policy.BudgetRef) (float64, bool) { return pools.share(ref, &e) }, extra)
		}
		mean := expected(e.Failures, l.Groups)
		m.Edges = append(m.Edges, Edge{From: e.From, To: e.To, Key: e.Key, Calls: e.Calls, Attempts: Requests{
			Plain: 1, Worst: float64(l.Attempts), Budgeted: l.Budgeted, Expected: mean, ExpectedBudgeted: min(mean, l.Budgeted),
		}})
	}
	m.multiply()
	for _, n := range m.Nodes { // a sum or quotient out of range is infinite, or not a number
		if !(n.Amplification.Worst <= math.MaxFloat64 && n.Requests.Worst <= math.MaxFloat64) {
			return nil, fmt.Errorf("amplify: node %s: the number of requests is out of range", n.Name)
		}
	}
	return m, nil
}

// pools are the calls that earn the tokens of budgets, and the hedges of max_extra_load.
type pools struct {
	budgets map[string]policy.Budget
	calls   map[pool]float64 // of a budget, per request of the node
	keys    map[pool]float64 // the same of a key
	edges   map[string]int   // that take from a budget, in the whole graph
}

// pool is a budget or a key in the process of a node.
type pool struct{ node, name string }

func newPools(g *policyfile.Graph, budgets map[string]policy.Budget, works []Work) pools {
	p := pools{budgets, map[pool]float64{}, map[pool]float64{}, map[string]int{}}
	for i, w := range works {
		if w.Policy == nil {
			continue
		}
		e := &g.Edges[i]
		p.keys[pool{e.From, e.Key}] += e.Calls
		names := []string{w.Policy.Retry.Budget.Name}
		if other := w.Policy.Hedge.Budget.Name; w.Policy.Hedge.Enabled && other != names[0] {
			names = append(names, other)
		}
		for _, name := range names {
			p.calls[pool{e.From, name}] += e.Calls
			p.edges[name]++
		}
	}
	return p
}

// share returns the extra attempts per call of an edge that a budget allows in the long run. A process spends the tokens that all its
// calls have earned where they are wanted, in the worst case on one edge.
func (p pools) share(ref policy.BudgetRef, e *policyfile.Edge) (extra float64, bounded bool) {
	extra, bounded = share(ref, p.budgets)
	if p.budgets[ref.Name].Scope == policy.ScopeShared && p.edges[ref.Name] > 1 {
		return 0, false // nodes earn tokens for each other
	}
	return extra * p.calls[pool{e.From, ref.Name}] / e.Calls, bounded
}

// Recorded is what a record knows of the calls of one key.
type Recorded struct {
	Parent   string // key of the work in whose attempts the calls ran; "" for work outside any attempt
	Key      string
	Calls    float64
	Attempts float64 // of all the calls together
}

// FromRecord maps a record. One request at "recorded work" is one piece of work outside any attempt, shared among the keys of such work
// as it was recorded. The recorded means take the place of all assumptions. Work that ran inside an attempt of its own key,
// also through others, is refused: along a cycle there is no number of requests without retries.
func FromRecord(list []Recorded) (*Map, error) {
	requests := map[string]float64{} // to a key: the attempts of its work
	for _, r := range list {
		requests[r.Key] += r.Attempts
		if r.Parent == "" {
			requests[""] += r.Calls
		}
	}
	m := &Map{Edges: []Edge{}, Nodes: []Node{}, Amplification: ones}
	for _, r := range list {
		if r.Calls == 0 || requests[r.Parent] == 0 { // no call, or calls in attempts that the record does not hold
			continue
		}
		mean := r.Attempts / r.Calls
		m.Edges = append(m.Edges, Edge{
			From: cmp.Or(r.Parent, "recorded work"), To: r.Key, Calls: r.Calls / requests[r.Parent], Attempts: Requests{1, mean, mean, mean, mean},
		})
	}
	m.multiply()
	for _, e := range m.Edges {
		if !slices.ContainsFunc(m.Nodes, func(n Node) bool { return n.Name == e.From }) {
			return nil, fmt.Errorf("amplify: the record has a cycle: work of key %s ran inside an attempt of its own key, perhaps through other keys", e.From)
		}
	}
	return m, nil
}

var ones = Requests{1, 1, 1, 1, 1}

// expected is the mean number of attempts of a call if a share of attempts fails, independently of each other.
func expected(failures float64, attempts int) float64 {
	sum, term := 0.0, 1.0
	for range attempts {
		sum += term
		term *= failures
	}
	return sum
}

// multiply computes the requests of all nodes and edges.
func (m *Map) multiply() {
	waiting, out := map[string]int{}, map[string][]int{}
	for i, e := range m.Edges {
		waiting[e.To]++
		out[e.From] = append(out[e.From], i)
	}
	nodes, next := map[string]*Node{}, []string{}
	for _, e := range m.Edges {
		if waiting[e.From] == 0 && nodes[e.From] == nil {
			nodes[e.From] = &Node{Name: e.From, Requests: ones}
			next = append(next, e.From)
		}
	}
	slices.Sort(next)
	for ; len(next) > 0; next = next[1:] {
		from := nodes[next[0]]
		from.Amplification = from.Requests.over(from.Requests.Plain)
		m.Amplification = m.Amplification.highest(from.Amplification)
		m.Nodes = append(m.Nodes, *from)
		for _, i := range out[from.Name] {
			e := &m.Edges[i]
			e.Requests = from.Requests.times(e.Attempts, e.Calls)
			to := nodes[e.To]
			if to == nil {
				to = &Node{Name: e.To}
				nodes[e.To] = to
			}
			to.Requests, to.layer = to.Requests.plus(e.Requests), max(to.layer, from.layer+1)
			if waiting[e.To]--; waiting[e.To] == 0 {
				next = append(next, e.To)
			}
		}
	}
	slices.SortStableFunc(m.Nodes, func(a, b Node) int { return cmp.Compare(a.layer, b.layer) })
}

func (r Requests) times(attempts Requests, calls float64) Requests {
	return Requests{
		r.Plain * calls * attempts.Plain, r.Worst * calls * attempts.Worst, r.Budgeted * calls * attempts.Budgeted,
		r.Expected * calls * attempts.Expected, r.ExpectedBudgeted * calls * attempts.ExpectedBudgeted,
	}
}

func (r Requests) plus(s Requests) Requests {
	return Requests{r.Plain + s.Plain, r.Worst + s.Worst, r.Budgeted + s.Budgeted, r.Expected + s.Expected, r.ExpectedBudgeted + s.ExpectedBudgeted}
}

func (r Requests) over(plain float64) Requests {
	return Requests{1, r.Worst / plain, r.Budgeted / plain, r.Expected / plain, r.ExpectedBudgeted / plain}
}

func (r Requests) highest(s Requests) Requests {
	return Requests{
		1, max(r.Worst, s.Worst), max(r.Budgeted, s.Budgeted), max(r.Expected, s.Expected), max(r.ExpectedBudgeted, s.ExpectedBudgeted),
	}
}
