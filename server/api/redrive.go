package api

import (
	"time"

	"github.com/tenetdev/tenet/job"
)

// RedriveSelection selects the dead jobs of a redrive.
type RedriveSelection struct {
	Filter JobFilter `json:"filter,omitzero" doc:"A filter of dead jobs; absent for all of them."`
}

// NewRedrive asks for a redrive.
type NewRedrive struct {
	RedriveSelection
	Rate        float64 `json:"rate,omitempty" minimum:"0" maximum:"1000000" doc:"Jobs per second; 0 for no limit."`
	Canary      int     `json:"canary,omitempty" minimum:"0" doc:"How many jobs are released first. All of them must complete before the others follow."`
	CanaryShare float64 `json:"canary_share,omitempty" minimum:"0" maximum:"1" doc:"The canary as a share of the selection, instead of canary."`
	StopShare   float64 `json:"stop_share,omitempty" minimum:"0" maximum:"1" doc:"Stops the redrive when this share of the released jobs that have ended died again; 0 never does."`
	StopLeast   int     `json:"stop_least,omitempty" minimum:"0" doc:"With stop_share: the least number of jobs that died again to stop for. Default 10, or that share of the selection if this is less."`
	MaxPending  int     `json:"max_pending,omitempty" minimum:"0" doc:"The most released jobs that have not ended. Default 1,000 with stop_share; otherwise there is no bound."`
}

// FromNewRedrive describes a redrive that is to be made. The server gives it an ID and an actor of its own.
func FromNewRedrive(n job.NewRedrive) NewRedrive {
	return NewRedrive{
		RedriveSelection: RedriveSelection{NewJobFilter(n.Filter)}, Rate: n.Rate, Canary: n.Canary, CanaryShare: n.CanaryShare,
		StopShare: n.StopShare, StopLeast: n.StopLeast, MaxPending: n.MaxPending,
	}
}

// NewRedrive returns what is asked for without its filter, ID and actor.
func (n NewRedrive) NewRedrive() job.NewRedrive {
	return job.NewRedrive{CanaryShare: n.CanaryShare, RedrivePlan: job.RedrivePlan{
		Rate: n.Rate, Canary: n.Canary, StopShare: n.StopShare, StopLeast: n.StopLeast, MaxPending: n.MaxPending,
	}}
}

// Redrive is a redrive: dead jobs, selected once, that are run again a part at a time.
type Redrive struct {
	ID       string             `json:"id"`
	Filter   string             `json:"filter" doc:"The filter that selected the jobs."`
	Actor    string             `json:"actor" doc:"The operator who started the redrive."`
	Created  time.Time          `json:"created"`
	Ended    time.Time          `json:"ended,omitzero"`
	State    job.RedriveState   `json:"state" enum:"running,paused,aborted,stopped,finished"`
	Phase    job.RedrivePhase   `json:"phase" enum:"canary,releasing,settling,undoing,idle" doc:"The current phase: releasing the canary or waiting for it, releasing the others, waiting for outcomes, putting jobs back, or nothing."`
	Active   bool               `json:"active" doc:"The redrive is running, or waits for outcomes of released jobs."`
	Reason   string             `json:"reason,omitempty" doc:"Why the redrive stopped or was aborted."`
	Pending  int                `json:"pending" doc:"The number of released jobs that have not ended."`
	Left     int                `json:"left" doc:"The number of jobs that are neither released nor skipped."`
	DeadJobs []string           `json:"dead_jobs,omitempty" doc:"The first jobs that died again."`
	Groups   []job.RedriveGroup `json:"groups" nullable:"false" doc:"The largest groups of the selection."`
	job.RedrivePlan
	job.RedriveCounts
}

// maxGroups bounds the groups of an answer.
const maxGroups = 100

// NewRedriveState describes a redrive.
func NewRedriveState(r job.Redrive) Redrive {
	return Redrive{
		ID: r.ID, Filter: r.Filter, Actor: r.Actor, Created: r.Created, Ended: r.Ended, State: r.State, Phase: r.Phase(), Active: r.Active(), Reason: r.Reason,
		Pending: r.Pending(), Left: r.Left(), DeadJobs: r.DeadJobs, Groups: largest(r.Groups), RedrivePlan: r.RedrivePlan, RedriveCounts: r.RedriveCounts,
	}
}

func largest(groups []job.RedriveGroup) []job.RedriveGroup {
	if groups == nil {
		return []job.RedriveGroup{}
	}
	return groups[:min(len(groups), maxGroups)]
}

// Redrive returns the redrive as stores return it, with as much of its progress as job.Redrive.Active needs.
func (r *Redrive) Redrive() job.Redrive {
	out := job.Redrive{
		ID: r.ID, Filter: r.Filter, Actor: r.Actor, Created: r.Created, Ended: r.Ended, State: r.State, Reason: r.Reason, Undo: r.Phase == job.PhaseUndoing,
		DeadJobs: r.DeadJobs, Groups: r.Groups, RedrivePlan: r.RedrivePlan, RedriveCounts: r.RedriveCounts,
	}
	if !r.Active {
		out.Progress.Discarded = out.Left()
	}
	return out
}

// RedrivePreview counts the dead jobs that a redrive would select now.
type RedrivePreview struct {
	Total  int                `json:"total"`
	Groups []job.RedriveGroup `json:"groups" nullable:"false" doc:"The selection by queue and type: the 100 largest groups, largest first."`
}

// NewRedrivePreview describes a selection.
func NewRedrivePreview(groups []job.RedriveGroup) RedrivePreview {
	p := RedrivePreview{Groups: largest(groups)}
	for _, g := range groups {
		p.Total += g.Jobs
	}
	return p
}

// RedrivePage is a page of redrives, newest first.
type RedrivePage struct {
	Redrives []Redrive `json:"redrives" nullable:"false"`
	Next     Cursor    `json:"next,omitempty"`
}

// RedriveRate is a new rate of a redrive.
type RedriveRate struct {
	Rate float64 `json:"rate" minimum:"0" maximum:"1000000" doc:"Jobs per second; 0 for no limit."`
}

// CauseQuery asks for groups of dead jobs.
type CauseQuery struct {
	Filter JobFilter `json:"filter,omitzero" doc:"By queue, type and cause it is answered from kept counts; with anything else, from the newest 10,000 dead jobs."`
	Limit  int       `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"100" doc:"The most groups to return."`
}

// Causes are groups of dead jobs, the largest first.
type Causes struct {
	Groups []job.CauseGroup `json:"groups" nullable:"false"`
	Looked int              `json:"looked,omitempty" doc:"How many of the newest dead jobs were counted; absent if all were."`
	More   bool             `json:"more,omitempty" doc:"There are older dead jobs that were not counted."`
}
