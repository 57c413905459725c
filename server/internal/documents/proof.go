package documents

import (
	"cmp"
	"context"
	"slices"

	"github.com/tenetdev/tenet/prove"
)

// Proof decides what can be proved of a revision: violations that it does not accept first, then those that it accepts, then the
// properties that hold, each in the order of the text. It returns policystore.ErrNotFound if the revision does not exist.
func (s *Service) Proof(ctx context.Context, name string, number int64) ([]prove.Finding, error) {
	d, _, err := s.revision(ctx, name, number)
	if err != nil {
		return nil, err
	}
	findings, err := prove.Document(d, nil)
	rank := func(f prove.Finding) int {
		switch {
		case f.Broken():
			return 0
		case f.Verdict == prove.Violated:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(findings, func(a, b prove.Finding) int { return cmp.Compare(rank(a), rank(b)) })
	return findings, err
}
