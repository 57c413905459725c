package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/prove"
)

// TestT1FindingsHaveTheFieldsOfSARIF proves every document of docs/prove.md, those that break a rule and those that are mended, and
// reads the logs strictly into the types of SARIF 2.1.0, so that an unknown field or a value of the wrong type fails.
func TestT1FindingsHaveTheFieldsOfSARIF(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "prove.md"))
	if err != nil {
		t.Fatal(err)
	}
	broken, suppressed := 0, 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		d, err := policyfile.Parse("policies.yaml", block[1], policyfile.Options{})
		if err != nil {
			continue // a call graph, or a part of a document
		}
		findings, err := prove.Document(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := prove.SARIF(findings)
		if err != nil {
			t.Fatal(err)
		}
		var log sarif.Report
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&log); err != nil {
			t.Errorf("%v in\n%s", err, text)
			continue
		}
		for _, r := range log.Runs[0].Results {
			if r.Kind == "fail" {
				broken++
				suppressed += len(r.Suppressions)
			}
		}
	}
	if broken < 15 {
		t.Errorf("%d violations (%d accepted) in docs/prove.md: its examples were not found", broken, suppressed)
	}
}
