package sqlite_test

import (
	"sync"
	"testing"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/storetest"
)

func TestAudit(t *testing.T) {
	var paths sync.Map // by sink
	again := func(t *testing.T, of audit.Sink) audit.Sink {
		path, _ := paths.Load(of)
		sink := openFile(t, path.(string)).Audit()
		paths.Store(sink, path)
		return sink
	}
	storetest.Audit(t, storetest.AuditOptions{
		Open: func(t *testing.T) audit.Sink {
			db := open(t)
			sink := db.Audit()
			paths.Store(sink, db.Path())
			return sink
		},
		Reopen: again, Second: again,
	})
}
