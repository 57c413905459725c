package outage

import "time"

// The grid's axes. The backoffs are a fifth of the latency and a hundred times as long.
var (
	loads    = []int{1, 10, 100, 1000}
	failures = []float64{0, 0.01, 0.05, 0.1, 0.5, 1}
	backoffs = []time.Duration{10 * time.Millisecond, 5 * time.Second}
)

// Row is a cell with its outcomes by budget.
type Row struct {
	Cell     Cell
	Outcomes map[string]Outcome
}

// Grid is every cell with every budget.
type Grid struct {
	Budgets []string // in the order of columns
	Rows    []Row    // by backoff, failure rate, load
}

// Run simulates the whole grid.
func Run() Grid {
	var g Grid
	for _, b := range budgets(func() time.Duration { return 0 }) {
		g.Budgets = append(g.Budgets, b.Name)
	}
	for _, backoff := range backoffs {
		for _, failure := range failures {
			for _, load := range loads {
				row := Row{Cell: Cell{Load: load, Failure: failure, Backoff: backoff}, Outcomes: map[string]Outcome{}}
				for i, name := range g.Budgets {
					row.Outcomes[name] = simulate(row.Cell, i)
				}
				g.Rows = append(g.Rows, row)
			}
		}
	}
	return g
}

// InBound reports whether Tenet's extra attempts never exceeded Ratio · calls + Burst in the row.
func (r Row) InBound() bool { return r.Outcomes[Tenet].Excess <= Burst }

// Comparable reports whether retries are useful in the row: 1 to 10 % of the attempts fail.
func (r Row) Comparable() bool { return r.Cell.Failure >= 0.01 && r.Cell.Failure <= 0.1 }

// KeepsUp reports whether Tenet's success rate is at least 0.95 of failsafe-go's in the row.
func (r Row) KeepsUp() bool {
	return r.Outcomes[Tenet].Success() >= 0.95*r.Outcomes[Failsafe].Success()
}
