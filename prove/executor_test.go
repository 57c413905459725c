package prove

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/retry"
)

// TestMain silences the executors, which warn of every class and classifier of a random document that nobody has registered.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	m.Run()
}

// TestT1TheExecutorDoesNoMoreThanIsProved runs random documents with the production executor in virtual time: attempts of several
// lengths that honour their contexts, alone on a fresh executor.
func TestT1TheExecutorDoesNoMoreThanIsProved(t *testing.T) {
	documents := 5_000
	if testing.Short() {
		documents = 200
	}
	r := rand.New(rand.NewPCG(11, 2026))
	hedging := 0
	for range documents {
		text := randomDocument(r)
		if !strings.Contains(text, "policies:") {
			continue
		}
		d, err := policyfile.Parse("p", []byte(text), policyfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		list, err := Document(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := &prover{document: d, budgets: d.Set.Budgets()}
		p.collect()
		s := &p.subjects[0]
		launched := false
		for _, took := range []time.Duration{0, 5 * time.Millisecond, 11 * time.Millisecond, 35 * time.Millisecond, 200 * time.Millisecond} {
			attempts, groups, longest := run(t, d, took)
			launched = launched || attempts > groups
			if worst := s.worst(); worst > 0 && longest > worst {
				t.Fatalf("proved at most %s, ran %s\n%s", worst, longest, text)
			}
			if n := s.policy.Retry.MaxAttempts; verdictOf(list, "attempt-unreachable") == Violated && groups >= n {
				t.Fatalf("attempt %d was proved unreachable, and ran\n%s", n, text)
			}
		}
		switch verdict := verdictOf(list, "hedge-never-launches"); {
		case verdict == Violated && launched:
			t.Fatalf("a hedge that never launches was launched\n%s", text)
		case verdict == Holds:
			hedging++
		}
	}
	if hedging == 0 {
		t.Error("no document could hedge")
	}
}

// run makes one call whose attempts fail after a time, and returns how many attempts and groups it started and how long it took.
func run(t *testing.T, d *policyfile.Document, took time.Duration) (attempts, groups int, elapsed time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		var started, primaries atomic.Int32
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: d.Set})
		began := time.Now()
		_ = e.Do(t.Context(), policy.ParseKey("a.B"), func(ctx context.Context) error {
			started.Add(1)
			if a, ok := retry.AttemptFromContext(ctx); ok && a.HedgeIndex == 0 {
				primaries.Add(1)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(took):
				return errors.New("failed")
			}
		})
		elapsed = time.Since(began)
		e.Wait(t.Context())
		attempts, groups = int(started.Load()), int(primaries.Load())
	})
	return attempts, groups, elapsed
}
