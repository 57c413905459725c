package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(*testing.T) job.Store { return memory.Open().Jobs() }

func TestJobs(t *testing.T) {
	storetest.Jobs(t, storetest.JobsOptions{Open: open, Bubble: synctest.Test})
}

func TestJobsInRealTime(t *testing.T) {
	t.Parallel()
	storetest.Jobs(t, storetest.JobsOptions{Open: open, Short: 300 * time.Millisecond})
}
