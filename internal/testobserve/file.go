package testobserve

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Hold compares a file, or the section between its markers if one is named, with want. With update it writes want instead.
func Hold(t *testing.T, update bool, file, section, want string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil && !update {
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
	if update {
		if err := os.WriteFile(file, []byte(before+want+after), 0o644); err != nil { //nolint:gosec // a document for everybody
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("%s is stale (-file +code); go test -update writes it:\n%s", file, diff)
	}
}
