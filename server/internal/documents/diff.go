package documents

import (
	"context"
	"fmt"

	"github.com/aymanbagabas/go-udiff"

	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/server/api"
)

// Diff compares two revisions of a document. It returns policystore.ErrNotFound if one does not exist.
func (s *Service) Diff(ctx context.Context, name string, from, to int64) (api.Difference, error) {
	out := api.Difference{From: from, To: to}
	before, old, err := s.revision(ctx, name, from)
	if err != nil {
		return out, err
	}
	after, next, err := s.revision(ctx, name, to)
	if err != nil {
		return out, err
	}
	if out.Fields, err = policyfile.Diff(before, after); err != nil {
		return out, err
	}
	label := func(number int64) string { return fmt.Sprintf("%s revision %d", name, number) }
	out.Text = udiff.Unified(label(from), label(to), string(old.Body), string(next.Body))
	return out, nil
}
