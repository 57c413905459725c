package audit_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestT3ALogKnowsWhichCallsRanInsideWhich records a call that fails once and makes two calls in each of its attempts, with and without
// a line of its own for each success.
func TestT3ALogKnowsWhichCallsRanInsideWhich(t *testing.T) {
	for name, o := range map[string]audit.Options{"all": {}, "successes counted": {Sample: -1}} {
		t.Run(name, func(t *testing.T) {
			ctx, path := context.Background(), filepath.Join(t.TempDir(), "audit.jsonl")
			file, err := audit.OpenFile(path, audit.FileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			log, err := audit.Open(ctx, file, o)
			if err != nil {
				t.Fatal(err)
			}
			e := retry.NewExecutor(retry.ExecutorOptions{Observer: log, Journal: log})
			attempt := 0
			err = e.Do(ctx, policy.ParseKey("web.Page"), func(ctx context.Context) error {
				attempt++
				for _, key := range []string{"db.Get", "cart.Get"} {
					if err := e.Do(ctx, policy.ParseKey(key), func(context.Context) error { return nil }); err != nil {
						return err
					}
				}
				if attempt == 1 {
					return errors.New("down")
				}
				return nil
			})
			if err == nil {
				err = e.Do(ctx, policy.ParseKey("db.Get"), func(context.Context) error { return nil })
			}
			if err := errors.Join(err, log.Close(ctx)); err != nil {
				t.Fatal(err)
			}
			got, _, err := audit.CallGraph(ctx, audit.NewFileSource(path), audit.Spill{})
			want := []audit.Calls{{"", "db.Get", 1, 1}, {"", "web.Page", 1, 2}, {"web.Page", "cart.Get", 2, 2}, {"web.Page", "db.Get", 2, 2}}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}
