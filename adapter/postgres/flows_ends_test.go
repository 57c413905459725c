package postgres

import (
	"fmt"
	"os"
	"testing"

	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/job"
)

// TestJ20FlowsLearnOnceOfJobsThatEndTogether, whatever the statistics are: a plan that told them for each of the jobs would count down the
// needs of others too far.
func TestJ20FlowsLearnOnceOfJobsThatEndTogether(t *testing.T) {
	for _, action := range []job.Action{job.ActionCancel, job.ActionDelete} {
		ctx := t.Context()
		db, err := Open(ctx, os.Getenv("DATABASE_URL"), Options{Schema: fmt.Sprint("ends ", action, os.Getpid())})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Migrate(ctx, migrate.Up, false); err != nil {
			t.Fatal(err)
		}
		f := &job.Flow{ID: "f"}
		last := job.FlowJob{Request: job.Request{Type: "t"}, Node: "last", OnFailure: job.FailureRun}
		for i := range 5 {
			f.Jobs = append(f.Jobs, job.FlowJob{Request: job.Request{Type: "t"}, Node: fmt.Sprint(i)})
			last.Needs = append(last.Needs, fmt.Sprint(i))
		}
		f.Jobs = append(f.Jobs, last)
		in, err := f.Inserts()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.jobs.EnqueueFlow(ctx, in); err != nil {
			t.Fatal(err)
		}
		setStatistics(t, db, emptyStatistics)
		if _, err := db.jobs.Change(ctx, action, job.Filter{IDs: []string{in.Jobs[0].ID, in.Jobs[1].ID, in.Jobs[2].ID}}, 10); err != nil {
			t.Fatal(err)
		}
		nodes, err := db.jobs.FlowNodes(ctx, job.NodeQuery{Flow: "f", Node: "last"})
		if err != nil || len(nodes) != 1 || nodes[0].Unmet != 2 || nodes[0].State != job.Waiting {
			t.Errorf("after %s of 3 of 5 needs: %+v, %v", action, nodes, err)
		}
		flows, err := db.jobs.Flows(ctx, job.FlowQuery{})
		if want := map[job.Action]int{job.ActionCancel: 3}[action]; err != nil || len(flows) != 1 || flows[0].Cancelled != want {
			t.Errorf("after %s: %+v, %v", action, flows, err)
		}
	}
}
