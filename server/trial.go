package server

import (
	"context"
	"fmt"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/api"
)

// getTrial sums up what clients reported of the revision under trial. Reports of earlier trials do not count.
func (s *Server) getTrial(ctx context.Context, in *DocumentName) (*answer[api.Trial], error) {
	d, err := s.getDocument(ctx, in)
	switch {
	case err != nil:
		return nil, err
	case d.Body.Trial == nil:
		return nil, fmt.Errorf("a revision of %q under trial: %w", in.Name, policystore.ErrNotFound)
	}
	clients, _, partial, err := s.reportingClients(ctx, &PartQuery{Document: in.Name}, "")
	if err != nil {
		return nil, err
	}
	out, sum := api.Trial{Trial: *d.Body.Trial, Partial: partial}, rollout.Trial{}
	for i := range clients {
		t := clients[i].Reported.Trial
		switch {
		case t == nil || t.Revision != out.Revision:
		case t.Refused != "":
			out.Refused++
			out.Reason = t.Refused
		default:
			out.Clients++
			sum.Add(t)
		}
	}
	out.Decisions, out.Diverged = sum.Decisions, sum.Diverged()
	out.Divergences = append([]rollout.Divergence{}, sum.Listed().Divergences...)
	return answers(out, nil)
}
