package policyimport

import (
	"cmp"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// fit clamps a value that is set to Tenet's limits.
func fit[T int | float64 | time.Duration](r *reader, path string, v *T, l policy.Range[T]) {
	if *v == 0 {
		return
	}
	if fitted := min(max(*v, l.Min), l.Max); cmp.Compare(fitted, *v) != 0 {
		r.approximate(path, "%v is outside the limits; %v is used", *v, fitted)
		*v = fitted
	}
}

// atLeast raises a duration to the least that a policy can say, also if it is 0.
func atLeast(r *reader, path string, d *time.Duration, least time.Duration) {
	if *d < least {
		r.approximate(path, "%v is outside the limits; %v is used", *d, least)
		*d = least
	}
}

// attempts returns how many attempts a number of retries makes, within the limits.
func (r *reader) attempts(retries int, path string) int {
	most := policy.CallLimits().Attempts.Max
	if retries < most {
		return retries + 1
	}
	r.approximate(path, "%d retries are outside the limits; %d are made, after the first attempt", retries, most-1)
	return most
}

// counts are the limits of bursts, and of attempts that run or start at a time.
var counts = policy.Range[int]{Min: 1, Max: 1_000_000}

// retryRatio returns the ratio of a budget that allows retries of a share of calls, in percent.
func retryRatio(r *reader, path string, percent float64) float64 {
	switch {
	case percent < 0 || percent > 100:
		r.fault(path, "%v is not a percentage from 0 to 100", percent)
	case percent == 0:
		r.approximate(path, "is approximated: 0 allows no retries beyond the minimum; here a thousand calls earn one, as a ratio must be above 0")
		return 0.001
	}
	return percent / 100
}
