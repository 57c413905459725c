package uuidv7_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tenetdev/tenet/internal/uuidv7"
)

func TestIDsAreOfVersion7(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 789_500_000, time.UTC)
	seen := map[string]bool{}
	for range 1000 {
		text := uuidv7.New(at)
		id, err := uuid.Parse(text)
		if err != nil || id.String() != text || id.Version() != 7 || id.Variant() != uuid.RFC4122 || seen[text] {
			t.Fatalf("%s: %v", text, err)
		}
		seen[text] = true
		if got := text[:18]; got != fmt.Sprintf("%08x-%04x-7800", at.UnixMilli()>>16, at.UnixMilli()&0xffff) {
			t.Fatalf("%s does not begin with the milliseconds and 0x800/4096", text)
		}
	}
	if uuidv7.New(at) > uuidv7.New(at.Add(time.Microsecond)) {
		t.Error("IDs are not in the order of their times")
	}
}

func TestNextIsGreaterThanAllBefore(t *testing.T) {
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			before := ""
			for range 10_000 {
				id := uuidv7.Next()
				if id <= before {
					t.Errorf("%s after %s", id, before)
					return
				}
				before = id
			}
		})
	}
	callers.Wait()
}
