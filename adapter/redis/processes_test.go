package redis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/redis"
	"github.com/tenetdev/tenet/internal/testredis"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/sharing"
)

// processEnvironment holds the server's URL in a process of TestB1TenRealProcesses.
const processEnvironment = "TENET_TEST_SHARING_PROCESS"

const (
	sharedRatio, sharedBurst = 0.2, 100.0
	processTime              = 8 * time.Second
)

// sharingProcess makes calls that fail, under a shared budget, and prints how many calls and attempts it made.
func sharingProcess(url string) int {
	db, err := redis.Open(url, redis.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	redis.DisableLog()
	hub := sharing.NewHub(db.Limits())
	compiled, err := policy.Compile(policy.Policy{Retry: policy.Retry{
		MaxAttempts: 4, InitialBackoff: time.Millisecond, Budget: policy.BudgetRef{Name: "api"},
	}}, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	e := retry.NewExecutor(retry.ExecutorOptions{Sharing: hub, Provider: policy.NewSet(policy.SetConfig{Calls: compiled, Budgets: map[string]policy.Budget{
		"api": {Kind: policy.BudgetRetryRatio, Ratio: sharedRatio, Burst: sharedBurst, Scope: policy.ScopeShared},
	}})})
	var calls, attempts atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(processTime)
	for range 4 {
		all.Go(func() {
			for time.Now().Before(end) {
				calls.Add(1)
				_ = e.Do(context.Background(), policy.ParseKey("api.Get"), func(context.Context) error {
					attempts.Add(1)
					return errors.New("down")
				})
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	all.Wait()
	if err := errors.Join(hub.Close(context.Background()), db.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(calls.Load(), attempts.Load())
	return 0
}

// TestB1TenRealProcesses: the calls of ten processes all fail, and in the middle of that their server is killed for two seconds. Their
// extra attempts stay within ratio · calls + burst + n · lot.
func TestB1TenRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts ten processes for ten seconds")
	}
	server, err := testredis.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	const processes = 10
	var commands [processes]*exec.Cmd
	var outputs [processes]bytes.Buffer
	for i := range commands {
		commands[i] = exec.Command(os.Args[0])
		commands[i].Env = append(os.Environ(), processEnvironment+"="+server.URL())
		commands[i].Stdout, commands[i].Stderr = &outputs[i], os.Stderr
		if err := commands[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(processTime / 3)
	if err := server.Kill(); err != nil {
		t.Error(err)
	}
	time.Sleep(2 * time.Second)
	if err := server.Run(); err != nil {
		t.Error(err)
	}
	var calls, attempts float64
	for i, c := range commands {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
		var made, tried float64
		if _, err := fmt.Sscan(outputs[i].String(), &made, &tried); err != nil || made < 100 {
			t.Fatalf("process %d printed %q", i, &outputs[i])
		}
		calls, attempts = calls+made, attempts+tried
	}
	extra, earned := attempts-calls, sharedRatio*calls
	lot := sharing.Terms{Capacity: sharedBurst, Earn: sharedRatio}.Lot()
	t.Logf("%.0f calls, %.0f extra attempts; the bound is %.0f", calls, extra, earned+sharedBurst+processes*lot)
	if extra > earned+sharedBurst+processes*lot || extra < 0.8*earned {
		t.Errorf("%.0f extra attempts of %.0f calls; want between %.0f and %.0f", extra, calls, 0.8*earned, earned+sharedBurst+processes*lot)
	}
}
