package storetest_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/storetest"
)

// TestAuditOfFiles: a file has one writer and stores repeated events again.
func TestAuditOfFiles(t *testing.T) {
	for name, size := range map[string]int64{"one file": -1, "many files": 10_000} {
		t.Run(name, func(t *testing.T) {
			var paths sync.Map // by sink
			open := func(t *testing.T, path string) audit.Sink {
				sink, err := audit.OpenFile(path, audit.FileOptions{MaxSize: size})
				if err != nil {
					t.Fatal(err)
				}
				paths.Store(sink, path)
				return sink
			}
			storetest.Audit(t, storetest.AuditOptions{
				Open: func(t *testing.T) audit.Sink { return open(t, filepath.Join(t.TempDir(), "audit.jsonl")) },
				Reopen: func(t *testing.T, closed audit.Sink) audit.Sink {
					path, _ := paths.Load(closed)
					return open(t, path.(string))
				},
				Repeats: true,
			})
		})
	}
}

// The test of a database whose sink stores each event once and accepts writers of many processes.
func ExampleAudit() {
	openSchema := func(t *testing.T, schema string) audit.Sink { panic("the database's own") }
	_ = func(t *testing.T) { // func TestAudit(t *testing.T)
		again := func(t *testing.T, _ audit.Sink) audit.Sink { return openSchema(t, t.Name()) }
		storetest.Audit(t, storetest.AuditOptions{
			Open:   func(t *testing.T) audit.Sink { return openSchema(t, t.Name()) },
			Reopen: again,
			Second: again,
		})
	}
	// Output:
}
