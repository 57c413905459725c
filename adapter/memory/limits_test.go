package memory_test

import (
	"testing"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/sharing"
	"github.com/tenetdev/tenet/storetest"
)

func TestLimits(t *testing.T) {
	storetest.Limits(t, storetest.LimitsOptions{
		Bubble: true,
		Open: func(t *testing.T) sharing.Store {
			db := memory.Open()
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			return db.Limits()
		},
	})
}
