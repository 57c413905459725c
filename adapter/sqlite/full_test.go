package sqlite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
)

// TestAFullDiskLosesNothingAcknowledged bounds the file's size, writes until it is full, and then makes room.
func TestAFullDiskLosesNothingAcknowledged(t *testing.T) {
	db := openNew(t, Options{})
	limit := func(pages int) {
		if err := db.jobs.write(t.Context(), "limit", func(q querier) error {
			return one(q, selection{text: fmt.Sprintf(`PRAGMA max_page_count = %d`, pages), into: []any{new(int)}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	enqueue := func(n int) error {
		_, err := db.jobs.Enqueue(t.Context(), []job.Insert{{ID: fmt.Sprintf("01990000-0000-7000-8000-%012x", n), Type: "t", Queue: "q", Payload: make([]byte, 3000)}})
		return err
	}
	limit(100)
	var err error
	stored := 0
	for ; stored < 1000; stored++ {
		if err = enqueue(stored); err != nil {
			break
		}
	}
	if err == nil || stored == 0 {
		t.Fatalf("%d jobs on a disk of 100 pages, %v", stored, err)
	}
	if text := err.Error(); !strings.Contains(text, db.path+": the disk is full or fails: make room") {
		t.Errorf("the error names neither the file nor a remedy: %s", text)
	}
	list, err := db.jobs.Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 1}}, Lease: time.Minute})
	if err != nil || len(list) != 1 {
		t.Errorf("work goes on: claimed %d, %v", len(list), err)
	}
	limit(1 << 30)
	if err := enqueue(stored); err != nil {
		t.Errorf("after room was made: %v", err)
	}
	if list, err := db.jobs.List(t.Context(), job.Filter{}, "", 10_000); err != nil || len(list) != stored+1 {
		t.Errorf("%d jobs, want %d, %v", len(list), stored+1, err)
	}
}
