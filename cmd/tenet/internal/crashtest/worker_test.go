//go:build unix

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// Environment variables that make this test binary a worker.
const (
	envStore  = "CRASHTEST_STORE"
	envSchema = "CRASHTEST_SCHEMA"
	envLedger = "CRASHTEST_LEDGER"
)

const lease = 2 * time.Second

func TestMain(m *testing.M) {
	if url := os.Getenv(envStore); url != "" {
		if err := work(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// work runs a worker until stdin ends.
func work(url string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	store, err := open(ctx, url, os.Getenv(envSchema))
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was dismissed before it had begun
	}
	if err != nil {
		return err
	}
	file, err := os.OpenFile(os.Getenv(envLedger), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	book := booked{store, ledger{file}}
	var of job.Store = book
	if os.Getenv(envMortal) == "true" {
		of = mortal{book}
	}
	w := job.NewWorker(of, job.WithQueues(map[string]int{"default": 8}), job.WithLease(lease), job.WithLogger(slog.New(slog.DiscardHandler)),
		job.WithRetryPolicy(job.NewExponentialBackoff(policy.Retry{MaxAttempts: 25, InitialBackoff: 20 * time.Millisecond, MaxBackoff: 100 * time.Millisecond})))
	ran := func(j job.Job[[]byte]) { book.ledger.write(entry{Event: "ran", Job: j.ID}) }
	w.HandleRaw("work", func(_ context.Context, j job.Job[[]byte]) error {
		ran(j)
		time.Sleep(20*time.Millisecond + time.Duration(hash(j.ID)%60)*time.Millisecond)
		return nil
	})
	w.HandleRaw("bound", func(_ context.Context, j job.Job[[]byte]) error {
		ran(j)
		time.Sleep(boundTime)
		return nil
	})
	w.HandleRaw("long", func(_ context.Context, j job.Job[[]byte]) error { // longer than its lease
		ran(j)
		time.Sleep(lease + lease/2)
		return nil
	})
	w.HandleRaw("fail", func(_ context.Context, j job.Job[[]byte]) error {
		ran(j)
		time.Sleep(failTime)
		return errors.New("it never works")
	})
	w.HandleRaw("poison", func(_ context.Context, j job.Job[[]byte]) error {
		ran(j)
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	})
	return errors.Join(w.Run(ctx), store.Close())
}

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return h.Sum32()
}

// open opens an existing store.
func open(ctx context.Context, url, schema string) (sharedStore, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		db, err := sqlite.Open(ctx, path, sqlite.Options{})
		if err != nil {
			return nil, err
		}
		return db.Jobs(), nil
	}
	db, err := postgres.Open(ctx, url, postgres.Options{Schema: schema, MaxConns: 4})
	if err != nil {
		return nil, err
	}
	return db.Jobs(), nil
}

// process is a worker process.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr strings.Builder
	exited chan struct{}
	err    error
}

// crew keeps a number of worker processes running.
type crew struct {
	t           *testing.T
	url, schema string
	folder      string
	mortal      bool // the next process kills itself at any time
	started     int
	deaths      int // of processes that were not killed by the test
	members     []*process
}

func (c *crew) start() *process {
	c.t.Helper()
	c.started++
	p := &process{exited: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), envMortal+"="+strconv.FormatBool(c.mortal), envStore+"="+c.url, envSchema+"="+c.schema, "GORACE=atexit_sleep_ms=0",
		envLedger+"="+filepath.Join(c.folder, fmt.Sprintf("ledger-%03d", c.started)))
	p.cmd.Stderr = &p.stderr
	stdin, err := p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	p.stdin = stdin
	go func() {
		defer close(p.exited)
		p.err = p.cmd.Wait()
	}()
	return p
}

// replenish replaces each process that has died.
func (c *crew) replenish() {
	c.t.Helper()
	for i, p := range c.members {
		select {
		case <-p.exited:
			if p.stderr.Len() > 0 {
				c.t.Errorf("worker: %v: %s", p.err, p.stderr.String())
			}
			c.deaths++
			c.members[i] = c.start()
		default:
		}
	}
}

// kill kills a process and starts another one.
func (c *crew) kill(i int) {
	_ = c.members[i].cmd.Process.Kill() // a poison job may just have killed it
	<-c.members[i].exited
	c.members[i] = c.start()
}

// holder returns the process with the most long jobs.
func (c *crew) holder(types map[string]string) (most int) {
	c.t.Helper()
	held := map[int]int{} // by process
	for _, e := range readLedgers(c.t, c.folder) {
		switch {
		case types[e.Job] != "long":
		case e.Event == "claimed":
			held[e.Process]++
		case e.Event == "settling":
			held[e.Process]--
		}
	}
	for i, p := range c.members {
		if held[p.cmd.Process.Pid] > held[c.members[most].cmd.Process.Pid] {
			most = i
		}
	}
	return most
}

// freeze stops a process for longer than its leases and then continues it.
func (c *crew) freeze(i int) {
	p := c.members[i].cmd.Process
	_ = p.Signal(syscall.SIGSTOP)
	time.Sleep(lease + lease/2)
	_ = p.Signal(syscall.SIGCONT)
}

// dismiss stops all processes and waits for them.
func (c *crew) dismiss() {
	for _, p := range c.members {
		_ = p.stdin.Close()
		t := time.NewTimer(15 * time.Second)
		select {
		case <-p.exited:
		case <-t.C:
			c.t.Error("a worker does not stop")
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
		t.Stop()
		if p.err != nil && (p.err.Error() != "signal: killed" || p.stderr.Len() > 0) { // it may have died of its last job
			c.t.Errorf("worker: %v: %s", p.err, p.stderr.String())
		}
	}
}
