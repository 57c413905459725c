package postgres_test

import (
	"testing"

	"github.com/tenetdev/tenet/storetest"
)

func BenchmarkAuditAppend(b *testing.B) {
	db, _ := open(b)
	storetest.BenchmarkAppend(b, db.Audit())
}
