package ui

import (
	"net/url"
	"strings"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

// redriveView is a redrive with what its page says.
type redriveView struct {
	api.Redrive
	Words string // how it stands
	Alarm bool
	Plan  string
	Bar   []barPart
	Text  string // the bar in words
	Share string // of the selection that has ended
	Done  int    // jobs that have ended, or were skipped
}

// Title names the page.
func (v *redriveView) Title() string { return "Redrive of " + plural(v.Total, "job", "jobs") }

// barPart is a part of a progress bar, in thousandths of its width.
type barPart struct {
	Name, Value string
	X, Width    int
}

// redriveList is the page of redrives.
type redriveList struct {
	Redrives []redriveView
	Older    string
}

func redrivesPage() *page {
	return &page{path: "redrives", nav: "Redrives", title: "Redrives", file: "redrives", moving: true, load: func(r *request) (any, error) {
		return readRedrives(r, r.query.Get("cursor"), false)
	}}
}

func readRedrives(r *request, cursor string, active bool) (list redriveList, err error) {
	query := params.Of("limit", "50", "cursor", cursor)
	if active {
		query.Set("active", "true")
	}
	var page api.RedrivePage
	if err := r.get("/v1/redrives", query, &page); err != nil {
		return list, err
	}
	list.Redrives = lists.Map(page.Redrives, newRedriveView)
	list.Older = r.next("redrives", page.Next)
	return list, nil
}

func redrivePage() *page {
	return &page{path: "redrives/{id}", nav: "Redrives", file: "redrive", moving: true, load: func(r *request) (any, error) {
		one, err := readRedrive(r)
		if err != nil {
			return nil, err
		}
		v := newRedriveView(one)
		return &v, nil
	}}
}

func readRedrive(r *request) (one api.Redrive, err error) {
	err = r.get("/v1/redrives/"+url.PathEscape(r.PathValue("id")), nil, &one)
	return one, err
}

func newRedriveView(one api.Redrive) redriveView {
	v := redriveView{Redrive: one, Plan: planText(one.RedrivePlan)}
	v.Words, v.Alarm = redriveWords(&one)
	v.Done = one.Completed + one.Dead + one.Cancelled + one.Removed + one.Undone + one.Skipped
	v.Share = percent(float64(v.Done) / float64(max(one.Total, 1)))
	v.Bar, v.Text = newBar(one.Total, one.Left, []barCount{
		{"completed", one.Completed}, {"dead", one.Dead}, {"cancelled", one.Cancelled + one.Removed}, {"undone", one.Undone},
		{"skipped", one.Skipped}, {"pending", one.Pending},
	})
	return v
}

// redriveWords says how it stands with a redrive.
func redriveWords(r *api.Redrive) (text string, alarm bool) {
	running := ""
	if r.Pending > 0 {
		running = plural(r.Pending, "released job has", "released jobs have") + " not ended."
	}
	switch r.State {
	case job.RedriveRunning:
	case job.RedrivePaused:
		return "Paused: no further job is released. " + running, true
	case job.RedriveStopped:
		return "Stopped by itself, so that no further job dies: " + r.Reason + ". " + leftText(r), true
	case job.RedriveAborted:
		text = "Aborted " + r.Reason + ". "
		if r.Phase == job.PhaseUndoing {
			return text + "Released jobs that have not run are being put back.", true
		}
		return text + leftText(r), true
	case job.RedriveFinished:
		if r.Dead > 0 {
			return "Finished: " + plural(r.Completed, "job has", "jobs have") + " completed, and " + number(r.Dead) + " died again.", true
		}
		return "Finished: " + plural(r.Completed, "job has", "jobs have") + " completed, and none died again.", false
	}
	switch r.Phase {
	case job.PhaseCanary:
		return "Canary: " + number(r.Completed) + " of the first " + plural(r.Canary, "job has", "jobs have") + " completed. The others follow once all of them have.", false
	case job.PhaseSettling:
		return "All jobs are released. " + running, false
	case job.PhaseReleasing, job.PhaseUndoing, job.PhaseIdle:
	}
	return "Releasing: " + plural(r.Left, "job is", "jobs are") + " left. " + running, false
}

// leftText says what has become of the jobs that were not released.
func leftText(r *api.Redrive) string {
	if r.Left == 0 {
		return ""
	}
	return plural(r.Left, "job was", "jobs were") + " not released and " + map[bool]string{true: "stays", false: "stay"}[r.Left == 1] + " dead."
}

// perSecond is a rate in words.
func perSecond(rate float64) string {
	if rate < 1000 {
		return trim(rate, 3) + "/s"
	}
	return number(rate) + "/s"
}

// planText says how a redrive releases its jobs.
func planText(p job.RedrivePlan) string {
	var parts []string
	if p.Canary > 0 {
		parts = append(parts, plural(p.Canary, "job", "jobs")+" first, as a canary")
	}
	if p.Rate > 0 {
		parts = append(parts, "at most "+perSecond(p.Rate))
	} else {
		parts = append(parts, "as fast as the store allows")
	}
	if p.StopShare > 0 {
		parts = append(parts, "stops when "+percent(p.StopShare)+" of those that have ended, and at least "+number(max(p.StopLeast, 1))+", died again")
	}
	if p.MaxPending > 0 {
		parts = append(parts, "at most "+number(p.MaxPending)+" released and not ended")
	}
	return strings.Join(parts, "; ")
}

// barCount is a count to be drawn.
type barCount struct {
	name string
	n    int
}

// newBar draws counts out of a total, of which some jobs are left.
func newBar(total, left int, counts []barCount) (bar []barPart, text string) {
	x, sum := 0, 0
	var words []string
	for _, p := range counts {
		if p.n <= 0 {
			continue
		}
		sum += p.n
		end := max(sum*1000/max(total, 1), x+2) // what exists is seen
		bar = append(bar, barPart{Name: p.name, Value: number(p.n), X: x, Width: min(end, 1000) - x})
		x = min(end, 1000)
		words = append(words, number(p.n)+" "+p.name)
	}
	words = append(words, number(left)+" left")
	return bar, "Of " + plural(total, "job", "jobs") + ": " + strings.Join(words, ", ")
}

// redriveCommand is the command line that makes a redrive, without its plan.
func redriveCommand(filter string) string {
	if filter == "" {
		return "tenet dlq requeue"
	}
	return commandLine([]string{"dlq", "requeue", "--filter", filter})
}
