package prom_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write the golden file and docs/metrics.md")

// TestP2MetricNames holds every name, type, label and help text. Dashboards and alerts depend on them: a change belongs
// into the changelog.
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
	hold(t, filepath.Join("testdata", "metrics.md"), "", table.String())
	hold(t, filepath.Join("..", "..", "docs", "metrics.md"), "prometheus", table.String())
}

// descriptions counts the registered metrics, seen or not.
func descriptions(registry *prometheus.Registry) int {
	ch := make(chan *prometheus.Desc, 100)
	registry.Describe(ch)
	return len(ch)
}

// hold compares the file, or its section between the markers, with want.
func hold(t *testing.T, file, section, want string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	before, got, after := "", string(raw), ""
	if section != "" {
		begin, end := "<!-- begin "+section+" -->\n", "<!-- end "+section+" -->\n"
		var opened, closed bool
		before, got, opened = strings.Cut(got, begin)
		got, after, closed = strings.Cut(got, end)
		if !opened || !closed {
			t.Fatalf("%s lacks the markers %q and %q", file, begin, end)
		}
		before, after = before+begin, end+after
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+want+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("%s is stale (-file +code); go test -update writes it:\n%s", file, diff)
	}
}
