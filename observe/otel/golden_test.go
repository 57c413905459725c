package otel_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

var update = flag.Bool("update", false, "write the golden files and docs/metrics.md")

// TestP2MetricNames holds every name, type, unit, label and description. Dashboards and alerts depend on them: a change
// belongs into the changelog.
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
		fmt.Fprintf(&table, "| `%s` | %s | `%s` | %s | %s |\n", m.Name, kind, m.Unit, labels, m.Description)
	}
	hold(t, filepath.Join("testdata", "metrics.md"), "", table.String())
	hold(t, filepath.Join("..", "..", "docs", "metrics.md"), "otel metrics", table.String())
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

// TestSpanNames holds the spans and events with all their attributes.
func TestSpanNames(t *testing.T) {
	f := newFixture(t, 0)
	story(t.Context(), f)
	engines(t, f, func() {})
	found := map[string][]attribute.KeyValue{}
	for _, s := range f.spans.Ended() {
		kind, _, _ := strings.Cut(s.Name(), " ")
		if kind == "GET" || kind == "main" {
			continue // the operation's and the caller's own
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
	hold(t, filepath.Join("testdata", "spans.md"), "", table.String())
	hold(t, filepath.Join("..", "..", "docs", "metrics.md"), "otel spans", table.String())
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
