package prove_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/prove"
)

// TestT1FindingsFitTheSchemaOfSARIF proves every document of docs/prove.md, those that break a rule and those that are mended, and
// holds the logs against the schema that OASIS publishes (sarif-spec, sarif-2.1/schema, under its IPR policy).
func TestT1FindingsFitTheSchemaOfSARIF(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile(filepath.Join("testdata", "sarif-schema-2.1.0.json"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", "prove.md"))
	if err != nil {
		t.Fatal(err)
	}
	logs := 0
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
		log, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(log); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
		if bytes.Contains(text, []byte(`"kind": "fail"`)) || bytes.Contains(text, []byte(`"kind":"fail"`)) {
			logs++
		}
	}
	if logs < 15 {
		t.Errorf("%d logs with violations in docs/prove.md: its examples were not found", logs)
	}
}
