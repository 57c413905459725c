package storetest

import "pgregory.net/rapid"

// noDiff fails the test if cmp.Diff(want, got) has found a difference.
func noDiff(t rapid.TB, what, diff string) {
	t.Helper()
	if diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}
