// Package testobserve is what the tests of all exporters of metrics and spans do: they observe the same pipelines, and hold
// what they then export against files.
//
// [Pipelines] runs in virtual time:
//
//	synctest.Test(t, func(t *testing.T) { testobserve.Pipelines(t.Context(), t, observer, func() {}) })
package testobserve
