package testobserve

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Golden is a file, or the section between its markers if one is named.
type Golden struct{ File, Section string }

// Check compares the golden text with want. With update it writes want instead.
func (g Golden) Check(t *testing.T, update bool, want string) {
	t.Helper()
	raw, err := os.ReadFile(g.File)
	if err != nil && !update {
		t.Fatal(err)
	}
	before, got, after := "", string(raw), ""
	if g.Section != "" {
		begin, end := "<!-- begin "+g.Section+" -->\n", "<!-- end "+g.Section+" -->\n"
		var opened, closed bool
		before, got, opened = strings.Cut(got, begin)
		got, after, closed = strings.Cut(got, end)
		if !opened || !closed {
			t.Fatalf("%s lacks the markers %q and %q", g.File, begin, end)
		}
		before, after = before+begin, end+after
	}
	if update {
		if err := os.WriteFile(g.File, []byte(before+want+after), 0o644); err != nil { //nolint:gosec // a document for everybody
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("%s is stale (-file +code); go test -update writes it:\n%s", g.File, diff)
	}
}
