// Package testobserve holds what the tests of all exporters of metrics and spans share: they observe the same pipelines and
// compare what they export with files.
//
// [Pipelines] runs in virtual time:
//
//	synctest.Test(t, func(t *testing.T) { testobserve.Pipelines(t.Context(), t, observer, func() {}) })
package testobserve
