package api

import (
	"slices"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// Limits lists the limits of jobs.
type Limits struct {
	Limits []Limit `json:"limits" nullable:"false"`
}

// Limit is a limit of the jobs of a queue or type, with its buckets in use.
type Limit struct {
	Queue  string `json:"queue,omitempty" doc:"The queue whose jobs the limit bounds; absent for a limit of a type."`
	Type   string `json:"type,omitempty" doc:"The type whose jobs the limit bounds; absent for a limit of a queue."`
	Name   string `json:"name"`
	Source string `json:"source" enum:"document,setting" doc:"Where the limit in force comes from: a worker's document, or an operator's setting, which stands above it."`
	Off    bool   `json:"off,omitempty" doc:"An operator has switched the limit off."`
	// InForce is absent for a limit that is off.
	InForce  *LimitValues `json:"in_force,omitempty"`
	Document *LimitValues `json:"document,omitempty" doc:"What the document last published says."`
	Use      job.LimitUse `json:"use" doc:"The buckets in use, with at most 20 of the fullest."`
}

// LimitValues are the values of a limit.
type LimitValues struct {
	Key         []string   `json:"key,omitempty" maxItems:"8" doc:"The fields that divide the jobs into buckets: queue, type, meta.NAME and payload.FIELD. Absent: one bucket."`
	Concurrency int        `json:"concurrency,omitempty" minimum:"1" maximum:"1000000" doc:"How many jobs of a bucket run at a time; absent for no bound."`
	Rate        *LimitRate `json:"rate,omitempty"`
	Order       string     `json:"order,omitempty" enum:"priority,strict" doc:"strict keeps the order of enqueueing and needs a concurrency of 1. Default priority."`
}

// LimitRate bounds how many jobs of a bucket start per period.
type LimitRate struct {
	Count int     `json:"count" minimum:"1" maximum:"1000000"`
	Per   float64 `json:"per,omitempty" minimum:"0.001" maximum:"3600" doc:"The period in seconds. Default 1."`
	Burst int     `json:"burst,omitempty" minimum:"1" maximum:"1000000" doc:"How many jobs may start at once after a pause. Default: count."`
}

// LimitSetting is an operator's setting of a limit: its values, or that it is off.
type LimitSetting struct {
	Off    bool         `json:"off,omitempty" doc:"There is no such limit, whatever documents say."`
	Values *LimitValues `json:"values,omitempty" doc:"The values; absent with off, and otherwise required."`
}

// NewLimit returns a limit as the API shows it.
func NewLimit(s job.LimitState, use job.LimitUse) Limit {
	if use.Fullest == nil {
		use.Fullest = []job.BucketUse{}
	}
	return Limit{
		Queue: s.Queue, Type: s.Type, Name: s.Name, Source: s.Source(), Off: s.Off, InForce: limitValues(s.InForce()), Document: limitValues(s.Document), Use: use,
	}
}

func limitValues(l *policy.JobLimit) *LimitValues {
	if l == nil {
		return nil
	}
	v := &LimitValues{Key: slices.Clone(l.Key), Concurrency: l.Concurrency, Order: string(l.Order)}
	if l.Rate.Count > 0 {
		v.Rate = &LimitRate{Count: l.Rate.Count, Per: fields.Seconds(l.Rate.Per), Burst: l.Rate.Burst}
	}
	return v
}

// NewLimitSetting returns a setting as the API takes it.
func NewLimitSetting(s job.LimitSetting) LimitSetting {
	return LimitSetting{Off: s.Off, Values: limitValues(s.Limit)}
}

// State returns what the store knows of the limit.
func (l Limit) State() job.LimitState {
	s := job.LimitState{LimitName: l.LimitName(), Document: l.Document.limit(l.Name), Off: l.Off}
	if l.Source == "setting" && !l.Off {
		s.Setting = l.InForce.limit(l.Name)
	}
	return s
}

// LimitName names the limit.
func (l Limit) LimitName() job.LimitName {
	return job.LimitName{Queue: l.Queue, Type: l.Type, Name: l.Name}
}

// Setting returns the setting of a limit.
func (s LimitSetting) Setting(name job.LimitName) job.LimitSetting {
	return job.LimitSetting{LimitName: name, Off: s.Off, Limit: s.Values.limit(name.Name)}
}

func (v *LimitValues) limit(name string) *policy.JobLimit {
	if v == nil {
		return nil
	}
	l := &policy.JobLimit{Name: name, Key: v.Key, Concurrency: v.Concurrency, Order: policy.JobOrder(v.Order)}
	if v.Rate != nil {
		l.Rate = policy.Rate{Count: v.Rate.Count, Per: Duration(v.Rate.Per), Burst: v.Rate.Burst}
	}
	return l
}
