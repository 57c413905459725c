package policyfile_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policyfile"
)

func TestDiffNamesTheFieldsThatDiffer(t *testing.T) {
	parse := func(text string) *policyfile.Document {
		t.Helper()
		d, err := policyfile.Parse("test.yaml", []byte(text), policyfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a := parse("version: 1\npolicies:\n  users.Get: {retry: {max_attempts: 3, timeout: 300ms, retry_on: [timeout]}}\n  old: {}\n")
	b := parse("# spelled differently\npolicies:\n  users.Get: {retry: {retry_on: [timeout], timeout: 0.3, max_attempts: 4, backoff: 1s}}\nversion: 1\n")
	got, err := policyfile.Diff(a, b)
	if err != nil {
		t.Fatal(err)
	}
	want := []policyfile.Change{
		{Path: "policies.old", From: json.RawMessage("{}")},
		{Path: "policies.users.Get.retry.backoff", To: json.RawMessage("1")},
		{Path: "policies.users.Get.retry.max_attempts", From: json.RawMessage("3"), To: json.RawMessage("4")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if same, err := policyfile.Diff(a, a); err != nil || len(same) > 0 {
		t.Error(same, err)
	}
}
