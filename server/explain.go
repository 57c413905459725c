package server

import (
	"context"
	"errors"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/server/api"
)

type explainQuery struct {
	ID       string `path:"id" maxLength:"64"`
	Document string `query:"document" maxLength:"255" doc:"The document whose current revision decides anew; the built-in policy if absent."`
}

// explainJob returns the story of a job. The log may know jobs that the store has removed: callers without bounds see these too.
func (s *Server) explainJob(ctx context.Context, in *explainQuery) (*answer[api.Story], error) {
	who := callerOf(ctx)
	r, history, missing := s.options.Jobs.Get(ctx, in.ID)
	switch {
	case errors.Is(missing, job.ErrNotFound) && len(who.Queues) == 0:
	case missing != nil:
		return nil, missing
	case !within(r.Queue, who.Queues):
		return nil, &job.NotFoundError{What: "job", ID: in.ID} // to this caller
	}
	set := policy.NewSet(policy.SetConfig{Source: policy.SourceDefault})
	if in.Document != "" {
		var err error
		if err = who.mayDocument(in.Document); err == nil {
			set, err = s.documents.Current(ctx, in.Document)
		}
		if err != nil {
			return nil, err
		}
	}
	story, err := audit.ExplainUnder(ctx, s.options.Audit, in.ID, set)
	switch {
	case err == nil:
		return answers(api.NewStory(story), nil)
	case !errors.Is(err, audit.ErrNoWork):
		return nil, err
	case missing != nil:
		return nil, missing
	}
	return answers(api.NewHistoryStory(r, history), nil)
}
