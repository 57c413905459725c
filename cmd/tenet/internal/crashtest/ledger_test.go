//go:build unix

package crashtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
)

// entry is a line of a ledger.
type entry struct {
	Event   string    `json:"event"` // claimed, ran, extended, settling, settled, refused
	Job     string    `json:"job"`
	Fence   int64     `json:"fence,omitempty"`
	Kind    job.Kind  `json:"kind,omitempty"`
	Claimed time.Time `json:"claimed,omitzero"` // time of the store
	Until   time.Time `json:"until,omitzero"`   // earliest end of the lease
	Error   string    `json:"error,omitempty"`
	Process int       `json:"process"`
	At      time.Time `json:"at"` // of the write
}

// ledger is an append-only file. Each line is one write, which survives the end of the process.
type ledger struct{ file *os.File }

func (l ledger) write(entries ...entry) {
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for _, x := range entries {
		x.Process, x.At = os.Getpid(), time.Now()
		if err := e.Encode(x); err != nil {
			panic(err)
		}
	}
	if _, err := l.file.Write(lines.Bytes()); err != nil {
		panic(err)
	}
}

// sharedStore is the interface of both databases to workers.
type sharedStore interface {
	job.Store
	job.Notifier
	job.Elector
}

// booked is a store that writes its leases into a ledger.
type booked struct {
	sharedStore
	ledger ledger
}

func (b booked) Claim(ctx context.Context, c job.Claim) ([]*job.Record, error) {
	records, err := b.sharedStore.Claim(ctx, c)
	list := make([]entry, len(records))
	for i, r := range records {
		list[i] = entry{Event: "claimed", Job: r.ID, Fence: r.Fence, Claimed: r.ClaimedAt, Until: r.LeaseUntil}
	}
	b.ledger.write(list...)
	return records, err
}

func (b booked) Extend(ctx context.Context, leases []job.Ref, d time.Duration) []error {
	until := job.Stamp(time.Now()).Add(d)
	errs := b.sharedStore.Extend(ctx, leases, d)
	list := make([]entry, len(leases))
	for i, l := range leases {
		list[i] = entry{Event: "extended", Job: l.ID, Fence: l.Fence, Until: until}
		if errs != nil && errs[i] != nil {
			list[i] = entry{Event: "refused", Job: l.ID, Fence: l.Fence, Error: errs[i].Error()}
		}
	}
	b.ledger.write(list...)
	return errs
}

func (b booked) Settle(ctx context.Context, settlements []job.Settlement) []error {
	list := make([]entry, len(settlements))
	for i, s := range settlements {
		list[i] = entry{Event: "settling", Job: s.ID, Fence: s.Fence, Kind: s.Kind}
	}
	b.ledger.write(list...)
	errs := b.sharedStore.Settle(ctx, settlements)
	for i := range list {
		list[i].Event = "settled"
		if errs != nil && errs[i] != nil {
			list[i].Event, list[i].Error = "refused", errs[i].Error()
		}
	}
	b.ledger.write(list...)
	return errs
}

// readLedgers reads the ledgers of all processes.
func readLedgers(t *testing.T, folder string) (all []entry) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "ledger-*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d ledgers: %v", len(paths), err)
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var e entry
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				if text := lines.Text(); lines.Scan() { // otherwise it is the last one, which is still being written or never was completely
					t.Fatalf("%s: %v: %s", path, err, text)
				}
				break
			}
			all = append(all, e)
		}
		_ = file.Close()
	}
	return all
}
