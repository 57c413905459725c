package sqlite_test

import (
	"database/sql"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// TestJ19AJobThatComesBackDuringAChangeTakesOnePlace: maintenance takes back an expired lease and goes on with a change of limits in the
// same transaction.
func TestJ19AJobThatComesBackDuringAChangeTakesOnePlace(t *testing.T) {
	synctest.Test(t, comesBackDuringAChange)
}

func comesBackDuringAChange(t *testing.T) {
	db := open(t)
	jobs := db.Jobs()
	limit := policy.JobLimit{Name: "two", Concurrency: 2}
	if err := jobs.SetLimit(t.Context(), job.LimitSetting{LimitName: job.LimitName{Queue: "q", Name: "two"}, Limit: &limit}); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Enqueue(t.Context(), []job.Insert{{ID: "01990000-0000-7000-8000-000000000001", Type: "t", Queue: "q", Payload: []byte(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	const lease = time.Minute
	if list, err := jobs.Claim(t.Context(), job.Claim{Worker: "w", Lease: lease, Queues: []job.Slots{{Queue: "q", Free: 1}}}); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	// What an unfinished change leaves.
	pool, err := sql.Open("sqlite", db.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	scope, err := json.Marshal(job.LimitName{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(`INSERT INTO tenet_gate_work (kind, what, position) VALUES ('jobs', ?, '0')`, string(scope)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(lease)
	done, err := jobs.Maintain(t.Context(), job.Maintenance{Limit: 100})
	if err != nil || done.Reclaimed != 1 {
		t.Fatal(done, err)
	}
	use, err := jobs.LimitUse(t.Context(), job.LimitName{Queue: "q", Name: "two"}, 10)
	if err != nil || use.Held != 1 || use.Waiting != 0 {
		t.Errorf("%+v, %v; want one place", use, err)
	}
}
