package main

import (
	"bytes"
	"fmt"

	"github.com/tenetdev/tenet/prove"
)

// proveRules writes a row of a table and a section per rule.
func proveRules() []byte {
	var b bytes.Buffer
	b.WriteString("| code | severity | property |\n|---|---|---|\n")
	for _, r := range prove.Rules() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", r.Code, r.Code, r.Severity, r.Property)
	}
	for _, r := range prove.Rules() {
		fmt.Fprintf(&b, "\n### %s\n\n%s %s\n", r.Code, r.Property, r.Why)
		if r.Graph != "" {
			fmt.Fprintf(&b, "\nWith this call graph:\n\n```text\n%s```\n", r.Graph)
		}
		example := "Violated"
		if r.Severity == prove.Note { // which is never violated
			example = "Worth a look"
		}
		fmt.Fprintf(&b, "\n"+example+":\n\n```yaml\n%s```\n\nRemedy: %s.\n\n```yaml\n%s```\n", r.Violating, r.Remedy, r.Mended)
	}
	return b.Bytes()
}
