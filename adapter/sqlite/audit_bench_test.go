package sqlite_test

import (
	"testing"

	"github.com/tenetdev/tenet/storetest"
)

func BenchmarkAuditAppend(b *testing.B) { storetest.BenchmarkAppend(b, open(b).Audit()) }
