package operation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/job"
)

// TestA2TheRecordOfAnActionNamesEveryJob checks that the log holds all IDs of the largest action that OnJobs describes.
func TestA2TheRecordOfAnActionNamesEveryJob(t *testing.T) {
	ids := make([]string, operation.MostIDs)
	for i := range ids {
		ids[i] = fmt.Sprintf("01a21ea2-3a5d-74f2-8d96-%012x", i)
	}
	o, err := operation.OnJobs("jobs.delete", job.Filter{IDs: ids, Queue: "mail"}, len(ids))
	if err != nil {
		t.Fatal(err)
	}
	sink := &audit.MemorySink{}
	log, err := audit.Open(t.Context(), sink, audit.Options{Redact: audit.Redaction{Fields: []string{"detail"}}})
	if err != nil {
		t.Fatal(err)
	}
	o.Actor = "ops"
	if err := operation.Record(t.Context(), log, o); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	events := sink.Events()
	recorded := map[string]bool{}
	for name, value := range events[len(events)-1].Attributes {
		if strings.HasPrefix(name, "ids_") {
			for _, id := range strings.Fields(value) {
				recorded[id] = true
			}
		}
	}
	if e := events[len(events)-1]; len(recorded) != len(ids) || e.Attributes["jobs"] != "10000" || e.Attributes["queue"] != "mail" {
		t.Errorf("%d of %d IDs are on record; jobs %q, queue %q", len(recorded), len(ids), e.Attributes["jobs"], e.Attributes["queue"])
	}
}
