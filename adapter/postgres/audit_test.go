package postgres_test

import (
	"sync"
	"testing"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/storetest"
)

func TestAudit(t *testing.T) {
	var schemaOf sync.Map // by sink
	again := func(t *testing.T, of audit.Sink) audit.Sink {
		schema, _ := schemaOf.Load(of)
		sink := openAt(t, url, schema.(string)).Audit()
		schemaOf.Store(sink, schema)
		return sink
	}
	storetest.Audit(t, storetest.AuditOptions{
		Open: func(t *testing.T) audit.Sink {
			db, schema := open(t)
			sink := db.Audit()
			schemaOf.Store(sink, schema)
			return sink
		},
		Reopen: again, Second: again,
	})
}
