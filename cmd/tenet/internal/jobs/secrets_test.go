package jobs

import (
	"strings"
	"testing"

	"github.com/tenetdev/tenet/job"
)

func TestHidingSecretsChangesNoJob(t *testing.T) {
	r := &job.Record{Payload: []byte(`{"cookie":"s3cret"}`), Meta: map[string]string{"Authorization": "s3cret", "tenant_id": "a"}}
	hidden := (&Secrets{}).hide(r)
	if strings.Contains(string(hidden.Payload)+hidden.Meta["Authorization"], "s3cret") || hidden.Meta["tenant_id"] != "a" {
		t.Errorf("hidden: %s, %v", hidden.Payload, hidden.Meta)
	}
	if string(r.Payload) != `{"cookie":"s3cret"}` || r.Meta["Authorization"] != "s3cret" {
		t.Errorf("the job: %s, %v", r.Payload, r.Meta)
	}
}
