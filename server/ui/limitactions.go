package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
	"github.com/tenetdev/tenet/server/internal/params"
)

// limitOf finds the limit that the query names.
func limitOf(r *request) (api.Limit, error) {
	list, err := readLimits(r)
	if err != nil {
		return api.Limit{}, err
	}
	return listed(list, "There is no limit of this name.", func(l api.Limit) bool {
		return l.Name == r.query.Get("name") && l.Queue == r.query.Get("queue") && l.Type == r.query.Get("type")
	})
}

// limitFlags begin a command that sets a limit. Its name follows the other flags.
func limitFlags(name job.LimitName, more ...string) []string {
	parts := []string{"limits", "set"}
	if name.Type != "" {
		parts = append(parts, "--type", name.Type)
	} else {
		parts = append(parts, "--queue", name.Queue)
	}
	return append(parts, more...)
}

// inUse says in words what a limit bounds now.
func inUse(l *api.Limit) string {
	return "It bounds " + plural(l.Use.Buckets, "bucket", "buckets") + " in use now: " + plural(l.Use.Held, "place is", "places are") + " taken, and " + plural(l.Use.Waiting, "job waits", "jobs wait") + " for one."
}

func valueFields(v *api.LimitValues) []field {
	if v == nil {
		v = &api.LimitValues{}
	}
	text := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	count, per, burst, strict := "", "", "", ""
	if v.Rate != nil {
		count, per, burst = text(v.Rate.Count), trim(v.Rate.Per, 3)+"s", text(v.Rate.Burst)
	}
	if v.Order == string(policy.OrderStrict) {
		strict = "true"
	}
	return []field{
		{Name: "fields", Label: "Key", Value: strings.Join(v.Key, ", "), Help: "Fields that divide the jobs into buckets, such as meta.tenant or payload.account.id. Empty: one bucket for all.", Flag: "--key VALUE", Several: true},
		{Name: "concurrency", Label: "Jobs of a bucket at a time", Value: text(v.Concurrency), Help: "From 1 to 1,000,000. Empty: no bound.", Flag: "--concurrency VALUE"},
		{Name: "rate", Label: "Starts of a bucket per period", Value: count, Help: "From 1 to 1,000,000. Empty: no bound.", Flag: "--rate VALUE"},
		{Name: "per", Label: "Period", Value: per, Help: "For example 1s or 1m, at most 1h. Empty: 1s.", Flag: "--per VALUE", Usual: "1s"},
		{Name: "burst", Label: "Starts at once after a pause", Value: burst, Help: "Empty: as many as per period.", Flag: "--burst VALUE"},
		{Name: "strict", Label: "Keep the order of enqueueing in a bucket", Type: "checkbox", Value: strict, Help: "Needs 1 job at a time. Retries keep their place.", Flag: "--strict"},
	}
}

// formCount reads a whole number that may be empty.
func formCount(r *request, name, label string) (int, error) {
	text := strings.ReplaceAll(strings.TrimSpace(r.PostFormValue(name)), ",", "")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000 {
		return 0, formFault(label + ": write a number from 1 to 1,000,000.")
	}
	return n, nil
}

func formValues(r *request) (*api.LimitValues, error) {
	v := &api.LimitValues{}
	v.Key = parts(r.PostFormValue("fields"))
	var err error
	if v.Concurrency, err = formCount(r, "concurrency", "Jobs of a bucket at a time"); err != nil {
		return nil, err
	}
	var rate api.LimitRate
	if rate.Count, err = formCount(r, "rate", "Starts of a bucket per period"); err != nil {
		return nil, err
	}
	if rate.Burst, err = formCount(r, "burst", "Starts at once after a pause"); err != nil {
		return nil, err
	}
	per, err := formDuration(r, "per", "Period")
	if err != nil {
		return nil, err
	}
	rate.Per = per.Seconds()
	switch {
	case rate.Count > 0:
		v.Rate = &rate
	case rate.Burst > 0:
		return nil, formFault("Starts at once after a pause: it needs the starts of a bucket per period.")
	}
	if v.Concurrency == 0 && v.Rate == nil {
		return nil, formFault("Write how many jobs run at a time, how many start per period, or both.")
	}
	if r.PostFormValue("strict") == "true" {
		if v.Order = string(policy.OrderStrict); v.Concurrency != 1 {
			return nil, formFault("Keep the order of enqueueing in a bucket: it needs 1 job of a bucket at a time.")
		}
	}
	return v, nil
}

// changeLimit sets or resets a limit, and returns it as it is then.
func changeLimit(r *request, method string, name job.LimitName, body any) (l api.Limit, err error) {
	query := params.Of("queue", name.Queue, "type", name.Type)
	err = r.change(client.Call{Method: method, Path: "/v1/limits/" + url.PathEscape(name.Name), Query: query, Body: body}, &l)
	return l, err
}

func newLimitAction() *action {
	return &action{
		path: "limits/new",
		preview: func(*request) (*preview, error) {
			return &preview{
				Title: "Set a limit", Button: "Set the limit", Command: "tenet limits set",
				Text: []string{"It holds over all workers of the store, and stands above what documents say about a limit of this name. Jobs over their limit wait; running jobs go on."},
				Fields: append([]field{
					{Name: "name", Label: "Name", Required: true, Help: "Letters, digits, dots, hyphens and underscores.", Flag: "VALUE", Unset: "NAME"},
					{Name: "of", Label: "It bounds the jobs of a", Type: "select", Options: []string{"queue", "type"}, Flag: "--VALUE"},
					{Name: "bounds", Label: "Name of the queue or type", Required: true, Flag: "VALUE", Unset: "QUEUE"},
				}, valueFields(nil)...),
			}, nil
		},
		make: func(r *request) (string, string, error) {
			name := job.LimitName{Name: strings.TrimSpace(r.PostFormValue("name"))}
			if of := strings.TrimSpace(r.PostFormValue("bounds")); r.PostFormValue("of") == "type" {
				name.Type = of
			} else {
				name.Queue = of
			}
			notice, err := putLimit(r, name)
			return notice, "", err
		},
	}
}

func putLimit(r *request, name job.LimitName) (notice string, err error) {
	values, err := formValues(r)
	if err != nil {
		return "", err
	}
	l, err := changeLimit(r, http.MethodPut, name, api.LimitSetting{Values: values})
	return sentenceCase(name.String()) + " is set: " + boundText(l.InForce) + ".", err
}

// onLimit is an action on the limit that the query names.
func onLimit(path string, show func(*api.Limit) *preview, change func(*request, *api.Limit) (notice string, err error)) *action {
	return on(path, limitOf, func(_ *request, l api.Limit) (*preview, error) { return show(&l), nil }, func(r *request) (string, string, error) {
		l, err := limitOf(r)
		if err != nil {
			return "", "", err
		}
		notice, err := change(r, &l)
		return notice, "", err
	})
}

func setLimitAction() *action {
	return onLimit("limits/set", func(l *api.Limit) *preview {
		return &preview{
			Title: "Set " + l.LimitName().String() + "?", Button: "Set the limit", Command: commandLine(limitFlags(l.LimitName())), Last: shellWords(operands(l.Name)),
			Text: []string{
				"In force: " + boundText(l.InForce) + ", " + sourceText(l) + ". " + inUse(l),
				"The setting replaces the whole limit, within a second and over all workers. Running jobs go on if their number is above it.",
			},
			Fields: valueFields(cmp.Or(l.InForce, l.Document)),
		}
	}, func(r *request, l *api.Limit) (string, error) { return putLimit(r, l.LimitName()) })
}

// sourceText says where a limit in force comes from.
func sourceText(l *api.Limit) string {
	if l.Source == "setting" {
		return "as an operator has set it"
	}
	return "as a worker's document says"
}

func offLimitAction() *action {
	return onLimit("limits/off", func(l *api.Limit) *preview {
		return &preview{
			Title: "Switch off " + l.LimitName().String() + "?", Button: "Switch it off", Danger: true, Command: commandOn(l.Name, limitFlags(l.LimitName(), "--off")...),
			Text: []string{"In force: " + boundText(l.InForce) + ". " + inUse(l), "Without it these jobs run as other limits and the workers allow, whatever documents say about this limit."},
		}
	}, func(r *request, l *api.Limit) (string, error) {
		_, err := changeLimit(r, http.MethodPut, l.LimitName(), api.LimitSetting{Off: true})
		return sentenceCase(l.LimitName().String()) + " is off.", err
	})
}

func resetLimitAction() *action {
	return onLimit("limits/reset", func(l *api.Limit) *preview {
		then := "No document says anything about it: the limit is removed."
		if l.Document != nil {
			then = "The limit is then what a worker's document says: " + boundText(l.Document) + "."
		}
		return &preview{
			Title: "Reset " + l.LimitName().String() + "?", Button: "Reset the limit", Command: commandOn(l.Name, limitFlags(l.LimitName(), "--reset")...),
			Text: []string{"What an operator has set is dropped: " + boundText(l.InForce) + ".", then, inUse(l)},
		}
	}, func(r *request, l *api.Limit) (string, error) {
		_, err := changeLimit(r, http.MethodDelete, l.LimitName(), nil)
		return sentenceCase(l.LimitName().String()) + " is as documents say.", err
	})
}
