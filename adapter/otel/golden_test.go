package otel_test

import (
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/tenetdev/tenet/internal/testobserve"
)

var update = flag.Bool("update", false, "write the golden files and docs/metrics.md")

// TestP2MetricNames pins every name, type, unit, label and description. Dashboards and alerts depend on them: a change
// belongs in the changelog.
func TestP2MetricNames(t *testing.T) {
	f := newFixture(t, 0)
	story(t.Context(), f)
	engines(t, f, func() {})
	metrics := collect(t, f)
	slices.SortFunc(metrics, func(a, b metricdata.Metrics) int { return strings.Compare(a.Name, b.Name) })
	var table strings.Builder
	table.WriteString("| metric | type | unit | attributes | meaning |\n|---|---|---|---|---|\n")
	for _, m := range metrics {
		kind, labels := describe(t, m)
		if m.Unit == "1" {
			t.Errorf("%s has the unit of a ratio: exporters to Prometheus would add _ratio to its name", m.Name)
		}
		fmt.Fprintf(&table, "| `%s` | %s | `%s` | %s | %s |\n", m.Name, kind, m.Unit, labels, m.Description)
	}
	testobserve.Golden{File: filepath.Join("testdata", "metrics.md")}.Check(t, *update, table.String())
	testobserve.Golden{File: filepath.Join("..", "..", "docs", "metrics.md"), Section: "otel metrics"}.Check(t, *update, table.String())
}

func describe(t *testing.T, m metricdata.Metrics) (kind, labels string) {
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		if !data.IsMonotonic {
			return "up-down counter", keys(data.DataPoints[0].Attributes.ToSlice())
		}
		return "counter", keys(data.DataPoints[0].Attributes.ToSlice())
	case metricdata.Gauge[int64]:
		return "gauge", keys(data.DataPoints[0].Attributes.ToSlice())
	case metricdata.Histogram[float64]:
		return "histogram", keys(data.DataPoints[0].Attributes.ToSlice())
	case metricdata.Histogram[int64]:
		return "histogram", keys(data.DataPoints[0].Attributes.ToSlice())
	}
	t.Fatalf("%s is a %T", m.Name, m.Data)
	return "", ""
}

// TestSpanNames pins the spans and events with all their attributes.
func TestSpanNames(t *testing.T) {
	f := newFixture(t, 0)
	story(t.Context(), f)
	engines(t, f, func() {})
	found := map[string][]attribute.KeyValue{}
	for _, s := range f.spans.Ended() {
		kind, _, _ := strings.Cut(s.Name(), " ")
		if kind == "GET" || kind == "main" {
			continue // the spans of the operation and of the caller
		}
		name := "span `" + kind + " <key>`"
		if strings.HasSuffix(s.Name(), " orders") {
			name = "span `" + kind + " <name>`"
		}
		found[name] = append(found[name], s.Attributes()...)
		for _, e := range s.Events() {
			found["event `"+e.Name+"` on `"+kind+"`"] = e.Attributes
		}
	}
	var table strings.Builder
	table.WriteString("| span or event | attributes |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&table, "| %s | %s |\n", name, keys(found[name]))
	}
	testobserve.Golden{File: filepath.Join("testdata", "spans.md")}.Check(t, *update, table.String())
	testobserve.Golden{File: filepath.Join("..", "..", "docs", "metrics.md"), Section: "otel spans"}.Check(t, *update, table.String())
}

func keys(attributes []attribute.KeyValue) string {
	var names []string
	for _, a := range attributes {
		name := string(a.Key)
		if strings.HasPrefix(name, "tenet.timeline.") {
			name = "tenet.timeline.*"
		}
		names = append(names, "`"+name+"`")
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
