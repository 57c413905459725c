package prom_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenetdev/tenet/internal/testobserve"
)

var update = flag.Bool("update", false, "write the golden file and docs/metrics.md")

// TestP2MetricNames pins every name, type, label and help text. Dashboards and alerts depend on them: a change belongs in the
// changelog.
func TestP2MetricNames(t *testing.T) {
	o, registry := observer(t, 0)
	for _, e := range story() {
		o.Observe(t.Context(), e)
	}
	engines(t, o, func() {})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n",
			f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
	}
	if described := descriptions(registry); described != len(families) {
		t.Errorf("%d metrics are registered, but the events of this test reach %d", described, len(families))
	}
	testobserve.Golden{File: filepath.Join("testdata", "metrics.md")}.Check(t, *update, table.String())
	testobserve.Golden{File: filepath.Join("..", "..", "docs", "metrics.md"), Section: "prometheus"}.Check(t, *update, table.String())
}

// descriptions counts the registered metrics, with or without samples.
func descriptions(registry *prometheus.Registry) int {
	ch := make(chan *prometheus.Desc, 100)
	registry.Describe(ch)
	return len(ch)
}
