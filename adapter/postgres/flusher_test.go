package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenetdev/tenet/job"
)

// disk takes a second for a write and rejects entries whose type is "bad".
type disk struct {
	groups [][]string // IDs of each write
}

func (d *disk) write(_ context.Context, entries []entry) ([]job.Receipt, error) {
	var names []string
	var receipts []job.Receipt
	for _, e := range entries {
		names = append(names, e.ID)
		receipts = append(receipts, job.Receipt{ID: e.ID})
	}
	d.groups = append(d.groups, names)
	time.Sleep(time.Second)
	for _, e := range entries {
		if e.Type == "bad" {
			return nil, &pgconn.PgError{Code: uniqueViolation}
		}
	}
	return receipts, nil
}

func named(names ...string) []entry {
	var list []entry
	for _, n := range names {
		list = append(list, entry{Insert: job.Insert{ID: n, Type: "t"}})
	}
	return list
}

func TestJ9CallsThatArriveDuringAWriteShareTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		f := newFlusher(d.write)
		var group sync.WaitGroup
		for i := range 5 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				name := fmt.Sprint(i)
				receipts, shared, err := f.add(context.Background(), named(name, name+"'"))
				if err != nil || len(receipts) != 2 || receipts[0].ID != name || receipts[1].ID != name+"'" || shared != (i > 0) {
					t.Errorf("call %d: %v, shared %v, %v", i, receipts, shared, err)
				}
			})
		}
		group.Wait()
		f.close()
		if diff := cmp.Diff([][]string{{"0", "0'"}, {"1", "1'", "2", "2'", "3", "3'", "4", "4'"}}, d.groups); diff != "" {
			t.Fatal(diff)
		}
		if _, _, err := f.add(context.Background(), named("late")); !errors.Is(err, job.ErrClosed) {
			t.Fatalf("after stop: %v", err)
		}
	})
}

func TestJ9LargePayloadsAreNotAllSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		f := newFlusher(d.write)
		large := make([]byte, 20<<20)
		var group sync.WaitGroup
		for i := range 6 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				list := named(fmt.Sprint(i))
				list[0].Payload = large
				if _, _, err := f.add(context.Background(), list); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			})
		}
		group.Wait()
		f.close()
		if diff := cmp.Diff([][]string{{"0"}, {"1", "2", "3"}, {"4", "5"}}, d.groups); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestJ9ARejectedCallFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		f := newFlusher(d.write)
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				list := named(fmt.Sprint(i))
				if i == 2 {
					list[0].Type = "bad"
				}
				_, _, err := f.add(context.Background(), list)
				if (err != nil) != (i == 2) {
					t.Errorf("call %d: %v", i, err)
				}
			})
		}
		group.Wait()
		if diff := cmp.Diff([][]string{{"0"}, {"1", "2", "3"}, {"1"}, {"2"}, {"3"}}, d.groups); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestJ9AnOutageFailsAllCallsOfAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection lost")
		f := newFlusher(func(context.Context, []entry) ([]job.Receipt, error) {
			time.Sleep(time.Second)
			return nil, down
		})
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if _, _, err := f.add(context.Background(), named("x")); !errors.Is(err, down) {
					t.Errorf("%v", err)
				}
			})
		}
		group.Wait()
	})
}

func TestJ9ACallThatIsCancelledBeforeItsWriteIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		f := newFlusher(d.write)
		go f.add(context.Background(), named("first"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, _, err := f.add(ctx, named("cancelled")); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 100*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		if _, _, err := f.add(context.Background(), named("last")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]string{{"first"}, {"last"}}, d.groups); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestJ9AWriteIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		f := newFlusher(d.write)
		var group sync.WaitGroup
		for range 30 {
			group.Go(func() {
				if _, _, err := f.add(context.Background(), make([]entry, 99)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		total := 0
		for _, g := range d.groups {
			total += len(g)
			if len(g) > maxCombined {
				t.Errorf("a write of %d jobs", len(g))
			}
		}
		if total != 30*99 {
			t.Errorf("%d jobs in all", total)
		}
	})
}

func TestJ11AnnouncementsAreBoundedAndTheLastIsNeverLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var near, rung []time.Duration
		b := bell{near: func() { near = append(near, time.Since(start)) }, far: func() { rung = append(rung, time.Since(start)) }}
		for range 23 {
			b.wake()
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want := []time.Duration{0, ringEvery, 2 * ringEvery, 3 * ringEvery, 4 * ringEvery, 5 * ringEvery}
		if diff := cmp.Diff(want, rung); diff != "" {
			t.Fatalf("rung (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, near); diff != "" {
			t.Fatalf("rung in this process (-want +got):\n%s", diff)
		}
		if !b.first() || b.first() {
			t.Fatal("after a pause the caller may announce once")
		}
		b.wake()
		b.stop()
		if time.Since(start) != 1023*time.Millisecond || len(rung) != 7 {
			t.Fatalf("stop did not announce what was pending: %v at %v", rung, time.Since(start))
		}
		b.wake()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(rung) != 7 {
			t.Fatal("rung after stop")
		}
	})
}
