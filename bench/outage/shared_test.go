package outage

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// processes is how many processes share the budget.
const processes = 10

// fleet is a simulation of processes that share Tenet's budget, in the virtual time of a synctest bubble: a goroutine for each call.
type fleet struct {
	cell    Cell
	budgets []budget.Budget

	mu      sync.Mutex // guards the fields below
	extra   int
	outcome Outcome
}

func (f *fleet) call(n int) {
	ask := func(attempt int) bool {
		ref := policy.BudgetRef{Name: "shared", Cost: 1}
		return f.budgets[n%processes].AllowAttempt(context.Background(), policy.Key{Name: "call"}, attempt, budget.KindRetry, ref).Allowed
	}
	f.mu.Lock()
	f.outcome.Calls++
	f.mu.Unlock()
	ask(0)
	for attempt := range MaxAttempts {
		f.mu.Lock()
		f.outcome.Attempts++
		f.mu.Unlock()
		time.Sleep(Latency)
		if luck(n, attempt) >= f.cell.Failure {
			f.mu.Lock()
			f.outcome.Succeeded++
			f.mu.Unlock()
			return
		}
		if attempt+1 == MaxAttempts || !ask(attempt+1) {
			return
		}
		f.mu.Lock()
		f.extra++
		f.outcome.Excess = max(f.outcome.Excess, float64(f.extra)-Ratio*float64(f.outcome.Calls))
		f.mu.Unlock()
		time.Sleep(f.cell.Backoff)
	}
}

// simulateFleet runs a cell with the calls spread over the processes.
func simulateFleet(t *testing.T, cell Cell) Outcome {
	f := &fleet{cell: cell}
	synctest.Test(t, func(t *testing.T) {
		db := memory.Open()
		for range processes {
			hub := sharing.NewHub(db.Limits())
			t.Cleanup(func() {
				if err := hub.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			r := budget.NewSharedRegistry(hub)
			if err := r.Apply(map[string]policy.Budget{"shared": {
				Kind: policy.BudgetRetryRatio, Ratio: Ratio, Burst: Burst, Scope: policy.ScopeShared,
			}}); err != nil {
				t.Fatal(err)
			}
			b, _ := r.Get("shared")
			f.budgets = append(f.budgets, b)
		}
		var calls sync.WaitGroup
		for n, begin := 0, time.Now(); ; n++ {
			time.Sleep(time.Duration(-math.Log(1-luck(n, -1)) / float64(cell.Load) * float64(time.Second)))
			if time.Since(begin) >= Duration {
				break
			}
			calls.Go(func() { f.call(n) })
		}
		calls.Wait()
	})
	return f.outcome
}

// TestB1TheSharedRetryRatioHoldsInEveryCell runs the grid with one budget over ten processes: their extra attempts stay within
// ratio · calls + burst + n · lot at any time, and where retries are useful they succeed as often as one process would.
func TestB1TheSharedRetryRatioHoldsInEveryCell(t *testing.T) {
	lot := sharing.Terms{Capacity: Burst, Earn: Ratio}.Lot()
	for _, backoff := range backoffs {
		for _, failure := range failures {
			for _, load := range loads {
				if testing.Short() && load > 100 {
					continue
				}
				row := Row{Cell: Cell{Load: load, Failure: failure, Backoff: backoff}}
				shared := simulateFleet(t, row.Cell)
				own := simulate(row.Cell, 1)
				if shared.Excess > Burst+processes*lot {
					t.Errorf("%+v: %+v exceeds the bound", row.Cell, shared)
				}
				if row.Comparable() && load >= 100 && shared.Success() < 0.99*own.Success() {
					t.Errorf("%+v: success %.4f, in one process %.4f", row.Cell, shared.Success(), own.Success())
				}
				t.Logf("%5d/s, %3.0f %% fail, backoff %v: %.3f attempts per call, excess %.1f; in one process %.3f, %.1f",
					load, 100*failure, backoff, shared.PerCall(), shared.Excess, own.PerCall(), own.Excess)
			}
		}
	}
}
