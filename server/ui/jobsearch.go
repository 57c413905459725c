package ui

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// jobSearch is what a person searches for.
type jobSearch struct {
	Text  string
	Fault *searchFault // the text is not a filter
	Terms filter.Terms // valid without Fault
}

// searchFault says what is wrong with a search, and where.
type searchFault struct {
	Problem string
	Before  string // the text up to the fault
	After   string // the rest
	Marked  bool   // Before and After are known
	Fixes   []link // searches that the person may have meant
}

type link struct{ Text, Href string }

// term writes a condition of the filter grammar.
func term(field, value string) string {
	return filter.Terms{{Field: field, Values: filter.Exactly(value)}}.String()
}

// parseSearch reads a search. An ID alone finds its job.
func parseSearch(u *UI, text string) jobSearch {
	s := jobSearch{Text: strings.TrimSpace(text)}
	if isID(s.Text) {
		s.Text = term("id", s.Text)
	}
	_, err := job.ParseFilter(s.Text, time.Now())
	if err == nil {
		s.Terms, err = filter.Parse(s.Text, job.FilterFields())
	}
	if fault, ok := errors.AsType[*filter.Error](err); ok {
		runes := []rune(s.Text)
		at := min(max(fault.Pos-1, 0), len(runes))
		s.Fault = &searchFault{Problem: fmt.Sprintf("Character %d: %s", fault.Pos, fault.Problem), Before: string(runes[:at]), After: string(runes[at:]), Marked: true, Fixes: fixes(u, s.Text)}
	}
	return s
}

// isID reports whether a text has the form of a job's ID.
func isID(text string) bool {
	id, err := uuid.Parse(text) // which also knows other forms
	return err == nil && id.String() == text
}

// fixes returns searches for words that name no field.
func fixes(u *UI, text string) (list []link) {
	if strings.Contains(text, `"`) {
		return nil
	}
	var words, terms []string
	for w := range strings.FieldsSeq(text) {
		if strings.Contains(w, ":") {
			terms = append(terms, w)
		} else {
			words = append(words, w)
		}
	}
	if len(words) == 0 {
		return nil
	}
	phrase := strings.Join(words, " ")
	for _, f := range []struct{ field, text string }{
		{job.FieldError, "Jobs whose last error contains “" + phrase + "”"}, {job.FieldType, "Jobs of the type “" + phrase + "”"},
		{job.FieldQueue, "Jobs in the queue “" + phrase + "”"},
	} {
		fixed := strings.Join(append(slices.Clone(terms), term(f.field, phrase)), " ")
		if _, err := job.ParseFilter(fixed, time.Now()); err == nil {
			list = append(list, link{f.text, u.href("jobs", "filter", fixed)})
		}
	}
	return list
}

const stateField = "state"

// withState returns the search for jobs of a state, or of all if it is empty.
func (s *jobSearch) withState(state job.State) string {
	terms := slices.DeleteFunc(slices.Clone(s.Terms), func(t filter.Term) bool { return t.Field == stateField })
	if state != "" {
		terms = slices.Insert(terms, 0, filter.Term{Field: stateField, Values: filter.Exactly(string(state))})
	}
	return terms.String()
}

// queues returns the names that the search's queues have exactly, and whether no other term narrows it than queue and state.
func (s *jobSearch) queues() (names []string, counted bool) {
	for _, t := range s.Terms {
		switch {
		case t.Field == stateField:
		case t.Field == job.FieldQueue && !slices.ContainsFunc(t.Values, func(v filter.Value) bool { return v.Prefix }):
			for _, v := range t.Values {
				names = append(names, v.Text)
			}
		default:
			return nil, false
		}
	}
	return names, true
}

// state returns the state that the search is for, "" for all, or "several".
func (s *jobSearch) state() job.State {
	i := slices.IndexFunc(s.Terms, func(t filter.Term) bool { return t.Field == stateField })
	switch {
	case i < 0:
		return ""
	case len(s.Terms[i].Values) > 1:
		return "several"
	}
	return job.State(s.Terms[i].Values[0].Text)
}

// kept returns the kept counts of the search's queues by state, and whether they count what the search selects in a state.
func (s *jobSearch) kept(stats api.Stats) (total job.QueueStats, counted bool) {
	names, counted := s.queues()
	for name, q := range stats.Queues {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		total.Add(q.QueueStats)
	}
	return total, counted && s.Fault == nil
}

// nothing reports whether the kept counts say that the search finds nothing.
func (s *jobSearch) nothing(stats api.Stats) bool {
	total, counted := s.kept(stats)
	if !counted {
		return false
	}
	return !slices.ContainsFunc(job.States(), func(state job.State) bool {
		return (s.state() == "" || s.state() == "several" || s.state() == state) && *total.Of(state) > 0
	})
}

// tabs returns the quick filters by state, with counts where they are kept.
func (s *jobSearch) tabs(u *UI, stats api.Stats) []stateTab {
	total, counted := s.kept(stats)
	all := 0
	for _, state := range job.States() {
		all += *total.Of(state)
	}
	tab := func(name string, state job.State, n int) stateTab {
		t := stateTab{Name: name, Link: u.href("jobs", "filter", s.withState(state)), Current: state == s.state()}
		if counted {
			t.Count = number(n)
		}
		return t
	}
	list := []stateTab{tab("all", "", all)}
	for _, state := range job.States() {
		list = append(list, tab(string(state), state, *total.Of(state)))
	}
	return list
}
