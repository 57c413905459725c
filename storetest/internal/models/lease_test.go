package models_test

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/storetest/internal/models"
)

// TestJ7LeaseModel checks that the model accepts allowed answers of a store and rejects others. The lease is 10 ms.
func TestJ7LeaseModel(t *testing.T) {
	const ms = int64(time.Millisecond)
	op := func(what string, fence, call, answered int64, err error) porcupine.Operation {
		return porcupine.Operation{
			Input: models.LeaseCall{What: what, ID: "j", Fence: fence, At: call * ms}, Call: call * ms, Output: models.LeaseAnswer{Err: err, At: answered * ms}, Return: answered * ms,
		}
	}
	claim := op("claim", 1, 0, 1, nil)
	for name, c := range map[string]struct {
		history []porcupine.Operation
		legal   bool
	}{
		"claimed, settled, claimed":                  {[]porcupine.Operation{claim, op("settle", 1, 2, 3, nil), op("claim", 2, 4, 5, nil)}, true},
		"claimed twice under a live lease":           {[]porcupine.Operation{claim, op("claim", 2, 4, 5, nil)}, false},
		"claimed twice under one token":              {[]porcupine.Operation{claim, op("claim", 1, 30, 31, nil)}, false},
		"claimed again after the lease":              {[]porcupine.Operation{claim, op("claim", 2, 20, 21, nil)}, true},
		"claimed again while the lease was extended": {[]porcupine.Operation{claim, op("extend", 1, 8, 9, nil), op("claim", 2, 14, 15, nil)}, false},
		"settled long after the lease":               {[]porcupine.Operation{claim, op("settle", 1, 20, 21, nil)}, false},
		"extended long after the lease":              {[]porcupine.Operation{claim, op("extend", 1, 20, 21, nil)}, false},
		"settled while the lease was expiring":       {[]porcupine.Operation{claim, op("settle", 1, 11, 21, nil)}, true},
		"called expired before it was":               {[]porcupine.Operation{claim, op("settle", 1, 2, 3, job.ErrLeaseExpired)}, false},
		"called not running while it was":            {[]porcupine.Operation{claim, op("settle", 1, 2, 3, job.ErrNotRunning)}, false},
		"repeated":                                   {[]porcupine.Operation{claim, op("settle", 1, 2, 3, nil), op("claim", 2, 4, 5, nil), op("settle", 1, 6, 7, nil)}, true},
		"a repetition refused":                       {[]porcupine.Operation{claim, op("settle", 1, 2, 3, nil), op("settle", 1, 6, 7, job.ErrNotRunning)}, false},
		"a stale token settled":                      {[]porcupine.Operation{claim, op("claim", 2, 20, 21, nil), op("settle", 1, 22, 23, nil)}, false},
		"a stale token fenced":                       {[]porcupine.Operation{claim, op("claim", 2, 20, 21, nil), op("settle", 1, 22, 23, job.ErrFenced)}, true},
		"the live token fenced":                      {[]porcupine.Operation{claim, op("settle", 1, 2, 3, job.ErrFenced)}, false},
		"settled after it was taken back":            {[]porcupine.Operation{claim, op("extend", 1, 11, 12, job.ErrNotRunning), op("settle", 1, 13, 14, nil)}, false},
		"settled and claimed in either order":        {[]porcupine.Operation{claim, op("settle", 1, 2, 6, nil), op("claim", 2, 3, 5, nil)}, true},
		"any other error":                            {[]porcupine.Operation{claim, op("settle", 1, 2, 3, job.ErrConflict)}, false},
	} {
		if got := porcupine.CheckOperations(models.Lease(10*time.Millisecond), c.history); got != c.legal {
			t.Errorf("%s: legal = %v", name, got)
		}
	}
}
