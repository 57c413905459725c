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

// TestT4TwoFieldsOfTheSamePathAreBothCompared: names may hold dots, so that a field of one job can have the path of another one's.
func TestT4TwoFieldsOfTheSamePathAreBothCompared(t *testing.T) {
	parse := func(outer, inner string) *policyfile.Document {
		t.Helper()
		text := "version: 1\njobs:\n  mail: {retry: {timeout: " + outer + "}}\n  mail.retry: {timeout: " + inner + "}\n"
		d, err := policyfile.Parse("test.yaml", []byte(text), policyfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a := parse("1s", "1s")
	want := []policyfile.Change{{Path: "jobs.mail.retry.timeout", From: json.RawMessage("1"), To: json.RawMessage("2")}}
	for range 10 { // the order of a map decides which one is seen
		for name, b := range map[string]*policyfile.Document{"mail": parse("2s", "1s"), "mail.retry": parse("1s", "2s")} {
			got, err := policyfile.Diff(a, b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s changed: %s", name, diff)
			}
		}
	}
	if got, err := policyfile.Diff(a, a); err != nil || got == nil || len(got) > 0 {
		t.Errorf("%#v, %v", got, err)
	}
}
