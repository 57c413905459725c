package policyfile

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostile lists hostile documents with the text of their first fault.
func hostile() map[string]struct{ text, problem string } {
	repeat := func(s string, bytes int) string { return strings.Repeat(s, bytes/len(s)) }
	bomb := "version: 1\nbomb:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(repeat(fmt.Sprintf("*a%d, ", i-1), 60), ", "))
	}
	staircase := &strings.Builder{}
	for i := range 1400 {
		staircase.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	const full = maxBytes - 64
	cases := map[string]struct{ text, problem string }{
		"alias bomb":        {bomb, "more than 100000 values"},
		"10 MB":             {"version: 1\n" + repeat("# padding\n", 10<<20), "bytes, more than"},
		"100k lists":        {repeat("[", 100_000), "marks of lists and objects"},
		"40k lists":         {repeat("[", 40_000), "nested deeper than 64 levels"},
		"40k objects":       {repeat("{", 40_000), "nested deeper than 64 levels"},
		"100k dashes":       {repeat("- ", 200_000), "nested deeper than 64 levels"},
		"100k staircase":    {staircase.String(), "nested deeper than 64 levels"},
		"json 100k":         {repeat(`{"a":`, 500_000), "marks of lists and objects"},
		"json 40k":          {repeat(`{"a":`, 200_000), "nested deeper than 64 levels"},
		"list of ones":      {"version: 1\na: [" + repeat("1,", full), "marks of lists and objects"},
		"many documents":    {repeat("---\n", 300_000), "document is empty"},
		"many tags":         {repeat("! ", full), "marks of lists and objects"},
		"many anchors":      {repeat("&a ", full), "marks of lists and objects"},
		"unclosed quote":    {"\"" + repeat("a ", full), "not valid YAML"},
		"blank":             {repeat("\n", 90_000), "document is empty"},
		"lines":             {repeat("a:\n", full), "marks of lists and objects"},
		"many values":       {"version: 1\na: [" + repeat("1,", 98_000), "not valid YAML"},
		"many fields":       {"version: 1\n" + repeat("a:\n", 290_000), "more than 100000 values"},
		"comments":          {repeat("#\n", 190_000), "document is empty"},
		"NULs":              {repeat("\x00", full), "not valid YAML"},
		"many strings":      {repeat(`""`, full), "marks of lists and objects"},
		"fewer strings":     {repeat(`""`, 200_000), "not valid YAML"},
		"not UTF-8":         {"version: 1\na: \xff", "not UTF-8"},
		"UTF-16":            {"\xff\xfev\x00", "not UTF-8"},
		"one long key":      {"version: 1\n" + repeat("k", 1000) + ": 1\n", "unknown field"},
		"thousands of keys": {"version: 1\npolicies:\n" + repeat("  a: {}\n", 80_000), "given twice"},
	}
	return cases
}

// TestP6HostileDocumentsAreRejectedCheaply allows 100 MiB of allocations for each document. It logs the time, a few
// milliseconds where a second is allowed, but does not assert it, because machines are shared.
func TestP6HostileDocumentsAreRejectedCheaply(t *testing.T) {
	for name, c := range hostile() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			faults := refuse(t, c.text)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 {
				t.Errorf("allocated %d MiB", used>>20)
			}
			t.Logf("%v, %d KiB", took, (after.TotalAlloc-before.TotalAlloc)>>10)
			if !strings.Contains(faults[0].Problem, c.problem) {
				t.Errorf("got %q, want %q", faults[0].Problem, c.problem)
			}
			if len(faults) > maxFaults+1 {
				t.Errorf("%d faults", len(faults))
			}
		})
	}
}

func TestP6ManyFaultsAreCutOff(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\npolicies:\n")
	for i := range 5000 {
		fmt.Fprintf(&b, "  k%d: {retry: {retry_on: [undeclared%d]}}\n", i, i)
	}
	faults := refuse(t, b.String())
	if len(faults) != maxFaults+1 || !strings.HasPrefix(faults[maxFaults].Problem, "more than 1000 faults") {
		t.Errorf("%d faults, the last %v", len(faults), faults[len(faults)-1])
	}
}

func TestLargeDocumentsAreAccepted(t *testing.T) {
	var b strings.Builder
	b.WriteString("defaults: {calls: {retry: {backoff: 20ms}}}\npolicies:\n")
	const n = 5000
	for i := range n {
		fmt.Fprintf(&b, "  service.Operation%d: {retry: {max_attempts: 4, timeout: 300ms}}\n", i)
	}
	if d := accept(t, b.String()); len(d.Set.Keys()) != n {
		t.Errorf("%d keys", len(d.Set.Keys()))
	}
}
