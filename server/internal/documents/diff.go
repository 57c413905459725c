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
	var texts [2]string
	var parsed [2]*policyfile.Document
	for i, number := range []int64{from, to} {
		r, err := s.store.Revision(ctx, name, number)
		if err != nil {
			return out, err
		}
		texts[i] = string(r.Body)
		if parsed[i], err = s.parse(name, r.Body); err != nil {
			return out, err // limits that have become narrower since
		}
	}
	var err error
	if out.Fields, err = policyfile.Diff(parsed[0], parsed[1]); err != nil {
		return out, err
	}
	label := func(number int64) string { return fmt.Sprintf("%s revision %d", name, number) }
	out.Text = udiff.Unified(label(from), label(to), texts[0], texts[1])
	return out, nil
}
