package storetest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
)

// PoliciesOptions says how the suite opens a store.
type PoliciesOptions struct {
	// Open returns an empty store and closes it in the test's cleanup. Required.
	Open func(t *testing.T) policystore.Store
	// Second opens another handle on the data of the store that Open returned last, as another server would, and closes it in
	// the test's cleanup. Nil for stores that one process keeps for itself.
	Second func(t *testing.T, first policystore.Store) policystore.Store
}

// Policies checks that a store keeps the contract of policystore.Store.
func Policies(t *testing.T, o PoliciesOptions) {
	for _, c := range slices.Concat(documentCases(), clientCases(), rolloutCases(), credentialCases()) {
		t.Run(c.name, func(t *testing.T) {
			s := &policies{suite: suite{T: t, ctx: t.Context()}, Store: o.Open(t)}
			s.second = s.Store
			if o.Second != nil {
				s.second = o.Second(t, s.Store)
			}
			c.run(s)
		})
	}
}

// policiesCase is one behaviour.
type policiesCase struct {
	name string
	run  func(s *policies)
}

// policies is a policy store under test. second is another handle on the same data, or the same handle.
type policies struct {
	suite
	policystore.Store

	second policystore.Store
}

// same fails unless got is want. Absent and empty lists and maps are the same.
func (s *policies) same(want, got any, what string) {
	s.Helper()
	noDiff(s, what, cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.AllowUnexported(rollout.Sketch{})))
}

// handle returns the two handles in turn.
func (s *policies) handle(i int) policystore.Store {
	return []policystore.Store{s.Store, s.second}[i%2]
}
