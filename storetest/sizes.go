package storetest

import (
	"flag"
	"testing"
)

// sized is the size of a case: the full one, or with -short one that shows the same in less time.
func sized(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}

// fewerChecks makes rapid try 4 sequences of operations instead of 100 with -short, unless the flag says how many: rapid divides the
// number by 5 itself then.
func fewerChecks() {
	if f := flag.Lookup("rapid.checks"); testing.Short() && f != nil && f.Value.String() == f.DefValue {
		_ = f.Value.Set("20")
	}
}
