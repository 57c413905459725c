package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/job"
)

// victimFile is the environment variable with the file that a child process works on until it is killed.
const victimFile = "TENET_TEST_VICTIM"

// victim enqueues and works forever, and writes a line for each acknowledgement of the store.
func victim(path string) {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, path, sqlite.Options{Create: true})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var mu sync.Mutex // the lines of one operation stay together
	report := func(what string, id string, fence int64) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(what, id, fence)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				id := uuid.Must(uuid.NewV7()).String()
				if _, err := db.Jobs().Enqueue(ctx, []job.Insert{{ID: id, Type: "t", Queue: "q", Payload: []byte(strings.Repeat("x", rand.IntN(2000)))}}); err != nil {
					fmt.Println("error", err)
					return
				}
				report("enqueued", id, 0)
			}
		})
		group.Go(func() {
			worker := uuid.NewString()
			for {
				list, err := db.Jobs().Claim(ctx, job.Claim{Worker: worker, Queues: []job.Slots{{Queue: "q", Free: 5}}, Lease: time.Hour})
				if err != nil {
					fmt.Println("error", err)
					return
				}
				var done []job.Settlement
				for _, r := range list {
					report("claimed", r.ID, r.Fence)
					done = append(done, job.Settlement{Ref: r.Ref(), Kind: job.KindComplete})
				}
				if errs := db.Jobs().Settle(ctx, done); errs != nil {
					fmt.Println("error", errs)
					return
				}
				for _, r := range list {
					report("completed", r.ID, r.Fence)
				}
			}
		})
	}
	group.Wait()
	os.Exit(1)
}

// ledger records the acknowledgements.
type ledger struct {
	mu                           sync.Mutex
	enqueued, claimed, completed map[string]int64
	kills                        int
	problems                     []string
}

// run starts a child process and kills it after a number of lines.
func (l *ledger) run(t *testing.T, path string, lines int) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), victimFile+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	if err := child.Start(); err != nil {
		t.Error(err)
		return
	}
	r := bufio.NewReader(out)
	for n := 0; ; n++ {
		line, err := r.ReadString('\n')
		if err != nil {
			break // a line without its end was cut off by the kill
		}
		l.note(strings.Fields(line))
		if n == lines {
			_ = child.Process.Kill()
		}
	}
	_ = child.Wait()
	if status := child.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() && status.Signal() == syscall.SIGKILL {
		l.mu.Lock()
		l.kills++
		l.mu.Unlock()
	}
}

func (l *ledger) note(words []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(words) != 3 || words[0] == "error" {
		l.problems = append(l.problems, strings.Join(words, " "))
		return
	}
	fence, _ := strconv.ParseInt(words[2], 10, 64)
	switch words[0] {
	case "enqueued":
		l.enqueued[words[1]] = fence
	case "claimed":
		if _, twice := l.claimed[words[1]]; twice {
			l.problems = append(l.problems, "claimed twice under a live lease: "+words[1])
		}
		l.claimed[words[1]] = fence
	case "completed":
		l.completed[words[1]] = fence
	}
}

// TestJ1KilledProcessesLoseNothingAcknowledged kills two processes on one file at random moments, again and again.
func TestJ1KilledProcessesLoseNothingAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	l := &ledger{enqueued: map[string]int64{}, claimed: map[string]int64{}, completed: map[string]int64{}}
	const rounds, victims = 5, 2
	for range rounds {
		var group sync.WaitGroup
		for range victims {
			group.Go(func() { l.run(t, path, 20+rand.IntN(300)) })
		}
		group.Wait()
		check(t, path)
	}
	if l.kills != rounds*victims || len(l.enqueued) == 0 || len(l.completed) == 0 {
		t.Fatalf("%d processes killed, %d enqueued, %d completed: nothing was tested", l.kills, len(l.enqueued), len(l.completed))
	}
	for _, p := range l.problems {
		t.Error(p)
	}
	db := openFile(t, path)
	list, err := db.Jobs().List(t.Context(), job.Filter{}, "", 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]*job.Record{}
	for _, r := range list {
		stored[r.ID] = r
	}
	for id := range l.enqueued {
		if stored[id] == nil {
			t.Errorf("%s was acknowledged and is lost", id)
		}
	}
	fences := storedFences(t, db)
	for id, fence := range l.claimed {
		if r := stored[id]; r == nil || fences[id] != fence || r.State != job.Running && r.State != job.Completed {
			t.Errorf("the claim of %s was acknowledged and is lost: %+v", id, r)
		}
	}
	for id := range l.completed {
		if r := stored[id]; r == nil || r.State != job.Completed {
			t.Errorf("the completion of %s was acknowledged and is lost: %+v", id, r)
		}
	}
	t.Logf("%d kills, %d enqueued, %d claimed, %d completed", l.kills, len(l.enqueued), len(l.claimed), len(l.completed))
}

// storedFences reads the token of every job's last claim, which the store returns only to the worker.
func storedFences(t *testing.T, db *sqlite.DB) map[string]int64 {
	t.Helper()
	tx, err := db.BeginTx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.QueryContext(t.Context(), `SELECT id, fence FROM tenet_job`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	fences := map[string]int64{}
	for rows.Next() {
		var id string
		var fence int64
		if err := rows.Scan(&id, &fence); err != nil {
			t.Fatal(err)
		}
		fences[id] = fence
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return fences
}
