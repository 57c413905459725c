package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// suggestion completes the word at the caret of a search.
type suggestion struct {
	Word, Help string
	Text       string // the whole search with the word in it
	Caret      int    // where the caret is then, in UTF-16 units
}

const (
	maxSuggestions = 12
	sampled        = 100 // newest jobs, whose types and metadata are suggested
)

func jobSuggestions() *fragment {
	return &fragment{path: "jobs/suggest", file: "suggest", load: func(r *request) (any, error) {
		text := []rune(r.query.Get("filter"))
		at, err := strconv.Atoi(r.query.Get("at"))
		if err != nil || at < 0 || at > len(text) {
			at = len(text)
		}
		if len(text) > filter.MaxLength {
			return []suggestion{}, nil
		}
		start := wordStart(text[:at])
		words, err := suggestWords(r, string(text[start:at]))
		if err != nil {
			return nil, err
		}
		list := []suggestion{}
		for _, w := range words[:min(len(words), maxSuggestions)] {
			head := string(text[:start]) + w.Word
			rest := strings.TrimLeft(string(text[at:]), " ")
			if !strings.HasSuffix(w.Word, ":") && !strings.HasSuffix(w.Word, ".") {
				head += " "
			}
			w.Text, w.Caret = head+rest, len([]rune(head))
			list = append(list, w)
		}
		return list, nil
	}}
}

// wordStart returns where the last word begins: behind the last white space that is not in quotes.
func wordStart(text []rune) (start int) {
	quoted := false
	for i, r := range text {
		switch {
		case r == '"' && (i == 0 || text[i-1] != '\\'):
			quoted = !quoted
		case unicode.IsSpace(r) && !quoted:
			start = i + 1
		}
	}
	return start
}

// fieldHelp says what fields are.
var fieldHelp = map[string]string{
	"id": "of the job", "state": "waiting, scheduled, ready, running, completed, dead or cancelled", job.FieldQueue: "a name, or the beginning of one and *",
	job.FieldType: "a job type, or the beginning of one and *", job.FieldKey: "unique key", job.FieldError: "part of the last error",
	job.FieldMeta: "a value of the metadata", job.FieldPayload: "a value in the payload", "before": "created before a time, or longer ago", "after": "created after a time, or within",
}

// suggestWords returns completions of a word: of a field's name, or of its last value.
func suggestWords(r *request, word string) ([]suggestion, error) {
	name, values, isValue := strings.Cut(word, ":")
	if !isValue {
		return suggestFields(r, word)
	}
	done, last := "", values
	if i := strings.LastIndexByte(values, ','); i >= 0 {
		done, last = values[:i+1], values[i+1:]
	}
	last = strings.Trim(last, `"`)
	known, err := fieldValues(r, name)
	if err != nil {
		return nil, err
	}
	var list []suggestion
	for _, v := range known {
		if v.Word == last || !strings.HasPrefix(strings.ToLower(v.Word), strings.ToLower(last)) {
			continue
		}
		_, quoted, _ := strings.Cut(term("id", v.Word), ":")
		list = append(list, suggestion{Word: name + ":" + done + quoted, Help: v.Help})
	}
	return list, nil
}

// suggestFields returns the fields that a word begins, and the fields that a word which begins none can be a value of.
func suggestFields(r *request, word string) ([]suggestion, error) {
	var indexes api.Indexes
	if err := r.get("/v1/indexes", nil, &indexes); err != nil {
		indexes.Fields = nil // this store has none
	}
	var list []suggestion
	add := func(name, help string) {
		if strings.HasPrefix(name, strings.ToLower(word)) && name != word {
			list = append(list, suggestion{Word: name, Help: help})
		}
	}
	for _, f := range job.FilterFields() {
		if f.Nested {
			add(f.Name+".", fieldHelp[f.Name])
			continue
		}
		add(f.Name+":", fieldHelp[f.Name])
	}
	for _, f := range indexes.Fields {
		add(f+":", "indexed")
	}
	if strings.HasPrefix(word, job.FieldMeta+".") {
		for name := range sampleMeta(r) {
			add(job.FieldMeta+"."+name+":", "in the newest jobs")
		}
		slices.SortFunc(list, func(a, b suggestion) int { return cmp.Compare(a.Word, b.Word) })
		list = slices.CompactFunc(list, func(a, b suggestion) bool { return a.Word == b.Word })
	}
	if len(list) == 0 && word != "" && !strings.ContainsAny(word, `".`) {
		if isID(word) {
			return []suggestion{{Word: term("id", word), Help: "this job"}}, nil
		}
		for _, f := range []struct{ field, help string }{{job.FieldError, "in the last error"}, {job.FieldType, "job type"}, {job.FieldQueue, "queue"}} {
			list = append(list, suggestion{Word: term(f.field, word), Help: f.help})
		}
	}
	return list, nil
}

// fieldValues returns known values of a field, as words without quotes.
func fieldValues(r *request, name string) (list []suggestion, err error) {
	var stats api.Stats
	switch name {
	case stateField, job.FieldQueue:
		if err := r.get("/v1/stats", nil, &stats); err != nil {
			return nil, err
		}
	}
	switch {
	case name == stateField:
		for _, s := range job.States() {
			n := 0
			for _, q := range stats.Queues {
				n += *q.Of(s)
			}
			list = append(list, suggestion{Word: string(s), Help: plural(n, "job", "jobs")})
		}
	case name == job.FieldQueue:
		for _, q := range slices.Sorted(maps.Keys(stats.Queues)) {
			counts := stats.Queues[q]
			list = append(list, suggestion{Word: q, Help: fmt.Sprintf("%s waiting, %s dead", number(counts.Waiting+counts.Ready+counts.Scheduled), number(counts.Dead))})
		}
	case name == job.FieldType:
		return typeValues(r)
	case name == "before", name == "after":
		for _, d := range []string{"10m", "1h", "24h", "168h"} {
			list = append(list, suggestion{Word: d, Help: "ago"})
		}
	case strings.HasPrefix(name, job.FieldMeta+"."):
		for _, v := range slices.Sorted(maps.Keys(sampleMeta(r)[strings.TrimPrefix(name, job.FieldMeta+".")])) {
			list = append(list, suggestion{Word: v, Help: "in the newest jobs"})
		}
	}
	return list, nil
}

// sample returns the newest jobs.
func sample(r *request) []api.Job {
	var found api.JobFound
	if err := r.ask("/v1/jobs/find", api.JobFind{Limit: sampled, Within: firstLook}, &found); err != nil {
		return nil // suggestions do without
	}
	return found.Jobs
}

// typeValues returns the job types of the live workers and of the newest jobs.
func typeValues(r *request) (list []suggestion, err error) {
	var workers api.Workers
	if err := r.get("/v1/workers", nil, &workers); err != nil {
		return nil, err
	}
	types := map[string]string{}
	for _, j := range sample(r) {
		types[j.Type] = "in the newest jobs"
	}
	for _, w := range workers.Workers {
		for _, t := range w.Types {
			types[t] = "a worker takes it"
		}
	}
	for _, t := range slices.Sorted(maps.Keys(types)) {
		list = append(list, suggestion{Word: t, Help: types[t]})
	}
	return list, nil
}

// sampleMeta returns the values in the metadata of the newest jobs by name. Secrets are redacted by the API.
func sampleMeta(r *request) map[string]map[string]bool {
	names := map[string]map[string]bool{}
	for _, j := range sample(r) {
		for name, value := range j.Meta {
			if names[name] == nil {
				names[name] = map[string]bool{}
			}
			names[name][value] = true
		}
	}
	return names
}
