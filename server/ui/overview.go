package ui

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// figure is a number with its name.
type figure struct {
	Name, Value, Note, Link string
	Alarm                   bool
}

type overview struct {
	Empty     bool
	Start     start
	Figures   []figure
	Attention []attention
	Further   int // queues that need attention and are not shown
	Course    course
	Causes    []causeGroup
	Running   []running
}

// start says how to begin, with commands that work when pasted.
type start struct {
	Enqueue, Worker, Publish string
	Signed                   bool // the commands need a token
}

// attention is a queue that needs somebody.
type attention struct {
	queueRow
	Why []string
}

// running is a rollout, a redrive, or programs without the revision that they should have.
type running struct{ What, Link, State string }

func overviewPage() *page {
	return &page{path: "{$}", nav: "Overview", title: "Overview", file: "overview", moving: true, load: func(r *request) (any, error) {
		queues, err := readQueues(r)
		if err != nil {
			return nil, err
		}
		o := overview{Empty: !slices.ContainsFunc(queues, func(q queueRow) bool { return q.used() })}
		if o.Empty {
			o.Start = r.start()
		} else {
			o.Figures, o.Attention = figures(r, queues), needAttention(queues)
			o.Further = max(len(o.Attention)-attentionShown, 0)
			o.Attention = o.Attention[:len(o.Attention)-o.Further]
			o.Causes, err = newestCauses(r)
			if err == nil {
				o.Course, err = readCourse(r, "", "")
			}
		}
		if err != nil {
			return nil, err
		}
		o.Running, err = readRunning(r)
		return o, err
	}}
}

// start writes the first commands for whoever looks at the page.
func (r *request) start() start {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	address := scheme + "://" + r.Host
	return start{
		Enqueue: commandLine([]string{"enqueue", "http", `{"url": "https://example.com/"}`, "--server", address}),
		Worker:  commandLine([]string{"worker", "--store", r.ui.storeName()}),
		Publish: commandLine([]string{"policy", "publish", "policies.yaml", "--name", "main", "--server", address}),
		Signed:  r.who.Kind != "local",
	}
}

func figures(r *request, queues []queueRow) (list []figure) {
	workers := map[string]bool{}
	oldest, total := 0.0, job.QueueStats{}
	for i := range queues {
		q := &queues[i]
		oldest = max(oldest, q.Oldest)
		for _, c := range q.Counts {
			*total.Of(c.State) += c.Count
		}
		for _, name := range q.Workers {
			workers[name] = true
		}
	}
	for _, s := range job.States() {
		n := *total.Of(s)
		list = append(list, figure{Name: string(s), Value: number(n), Link: r.ui.href("jobs", "filter", "state:"+string(s)), Alarm: s == job.Dead && n > 0})
	}
	waiting := total.Ready > 0 && len(workers) == 0
	return append(list,
		figure{Name: "Oldest due", Value: seconds(oldest)},
		figure{Name: "Workers", Value: strconv.Itoa(len(workers)), Link: r.ui.href("workers"), Alarm: waiting})
}

// lateAfter is the age in seconds of the oldest ready job from which a queue needs attention.
const lateAfter = 60

// attentionShown is how many queues that need attention the overview shows.
const attentionShown = 20

// needAttention returns the queues that need somebody, those with the oldest jobs first.
func needAttention(queues []queueRow) (list []attention) {
	for i := range queues {
		a := attention{queueRow: queues[i]}
		if a.Oldest >= lateAfter {
			a.Why = append(a.Why, "its oldest job has been due for "+seconds(a.Oldest))
		}
		if a.count(job.Ready) > 0 && len(a.Workers) == 0 {
			a.Why = append(a.Why, "no worker serves it")
		}
		if a.Paused || len(a.Why) > 0 {
			list = append(list, a)
		}
	}
	slices.SortStableFunc(list, func(a, b attention) int { return cmp.Compare(b.Oldest, a.Oldest) })
	return list
}

// absent hides the refusal of something that the store does not keep or that the caller may not read.
func absent(err error) error {
	if refused(err) {
		return nil
	}
	return err
}

// causesShown is how many causes of death the overview shows.
const causesShown = 5

// newestCauses returns the groups of dead jobs that have grown last.
func newestCauses(r *request) ([]causeGroup, error) {
	var found api.Causes
	if err := absent(r.ask("/v1/dlq/causes", api.CauseQuery{}, &found)); err != nil {
		return nil, err
	}
	slices.SortFunc(found.Groups, func(a, b job.CauseGroup) int { return b.LastSeen.Compare(a.LastSeen) })
	return lists.Map(found.Groups[:min(len(found.Groups), causesShown)], newCauseGroup), nil
}

// readRunning returns what runs beside the jobs: redrives, rollouts, and programs that lag behind.
func readRunning(r *request) (list []running, err error) {
	redrives, err := readRedrives(r, "", true)
	if err := absent(err); err != nil {
		return nil, err
	}
	for i := range redrives.Redrives {
		d := &redrives.Redrives[i]
		list = append(list, running{d.Title(), r.ui.href("redrives/" + d.ID), fmt.Sprintf("%s, %s ended: %s", d.State, d.Share, d.Text)})
	}
	var documents api.Documents
	if err := absent(r.get("/v1/documents", url.Values{"limit": {documentsLooked}}, &documents)); err != nil {
		return nil, err
	}
	for i := range documents.Documents {
		d := &documents.Documents[i]
		more, err := documentRuns(r, d)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// documentsLooked is how many documents the overview looks at.
const documentsLooked = "10"

// documentRuns returns the running rollout of a document, and its clients that lag behind.
func documentRuns(r *request, d *policystore.Document) (list []running, err error) {
	link := r.ui.href("policies/" + url.PathEscape(d.Name))
	if place := rolloutPlace(d.Rollout); place != "" {
		return []running{{"Rollout of " + d.Name, link, string(d.Rollout.State) + ", " + place}}, nil
	}
	clients, err := r.clientTotals(*d)
	if err != nil {
		return nil, err
	}
	if clients.Refused > 0 {
		list = append(list, running{plural(clients.Refused, "client", "clients") + " of " + d.Name, link, "refused a revision"})
	}
	if behind := clients.All - clients.Current - clients.Refused; behind > 0 {
		list = append(list, running{plural(behind, "client", "clients") + " of " + d.Name, link, "not yet at revision " + decimal(d.Current)})
	}
	return list, nil
}
