package audit

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
)

// Alert is a threshold for a metric of [Statistics], for example "rate>100/min".
type Alert struct {
	Metric string
	Above  bool // fires above the bound; otherwise below it
	Equal  bool // fires at the bound too
	Bound  float64
	text   string
}

// String returns the expression that the alert was parsed from.
func (a Alert) String() string { return a.text }

// metric is a value of [CategoryStats] that alerts can watch.
type metric struct {
	name  string
	unit  string   // share, rate, time or ""
	value *float64 // nil if it is not known
}

func (s *CategoryStats) metrics() []metric {
	count := func(n uint64) *float64 { return new(float64(n)) }
	seconds := func(d Seconds) *float64 { return new(time.Duration(d).Seconds()) }
	return []metric{
		{"rate", "rate", count(s.MaxRate)},
		{"mean_rate", "rate", &s.MeanRate},
		{"success_rate", "share", s.SuccessRate},
		{"average_attempts", "", s.AverageAttempts},
		{"amplification", "", s.Amplification},
		{"calls", "", count(s.Calls)},
		{"failed", "", count(s.Failed)},
		{"unfinished", "", count(s.Unfinished)},
		{"attempts", "", count(s.Attempts)},
		{"retries", "", count(s.Retries)},
		{"hedges", "", count(s.Hedges)},
		{"mean_delay", "time", seconds(s.MeanDelay)},
		{"max_delay", "time", seconds(s.MaxDelay)},
	}
}

var alertForm = regexp.MustCompile(`^\s*([a-z_]+)\s*(>=|<=|>|<)\s*([^\s]+)\s*$`)

// ParseAlert reads METRIC>BOUND, with >, >=, < or <=. rate (the highest in a minute) and mean_rate take a bound per min, s or
// h; success_rate a number or a percentage; mean_delay and max_delay a duration; the other metrics (average_attempts,
// amplification, calls, failed, unfinished, attempts, retries, hedges) a number.
func ParseAlert(text string) (Alert, error) {
	parts := alertForm.FindStringSubmatch(text)
	if parts == nil {
		return Alert{}, fmt.Errorf("audit: alert %q: write METRIC>NUMBER, such as rate>100/min or success_rate<0.9", text)
	}
	a := Alert{Metric: parts[1], Above: parts[2][0] == '>', Equal: len(parts[2]) == 2, text: strings.TrimSpace(text)}
	list := new(CategoryStats).metrics()
	i := slices.IndexFunc(list, func(m metric) bool { return m.name == a.Metric })
	if i < 0 {
		names := lists.Map(list, func(m metric) string { return m.name })
		return Alert{}, fmt.Errorf("audit: alert %q: unknown metric %s; known are %s", text, a.Metric, strings.Join(names, ", "))
	}
	var err error
	if a.Bound, err = parseBound(parts[3], list[i].unit); err != nil {
		return Alert{}, fmt.Errorf("audit: alert %q: %w", text, err)
	}
	return a, nil
}

func parseBound(text, unit string) (float64, error) {
	factor := 1.0
	switch unit {
	case "time":
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%s is not a duration such as 1.5s", text)
		}
		return d.Seconds(), nil
	case "share":
		if digits, ok := strings.CutSuffix(text, "%"); ok {
			text, factor = digits, 0.01
		}
	case "rate":
		digits, per, ok := strings.Cut(text, "/")
		switch {
		case !ok || per == "min" || per == "m" || per == "minute":
		case per == "s" || per == "sec" || per == "second":
			factor = 60
		case per == "h" || per == "hour":
			factor = 1.0 / 60
		default:
			return 0, fmt.Errorf("unknown unit /%s; write /min, /s or /h", per)
		}
		text = digits
	}
	bound, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(bound) || math.IsInf(bound, 0) { // NaN and infinity would never fire, or always
		return 0, fmt.Errorf("%s is not a number", text)
	}
	return bound * factor, nil
}

// Firing is an alert that fired.
type Firing struct {
	Alert    string  `json:"alert"`
	Category string  `json:"category"` // "" means the total, or a step without a category
	Step     string  `json:"step,omitempty"`
	Value    float64 `json:"value"`
}

// Check returns each place where the alert fires: the total, categories and steps.
func (r *StatsReport) Check(a Alert) []Firing {
	var out []Firing
	check := func(s *CategoryStats) {
		for _, m := range s.metrics() {
			if m.name == a.Metric && m.value != nil && a.fires(*m.value) {
				out = append(out, Firing{a.String(), s.Category, s.Step, *m.value})
			}
		}
	}
	check(&r.Total)
	for i := range r.Categories {
		if c := &r.Categories[i]; c.Category != "" || c.Step != "" {
			check(c)
		}
	}
	return out
}

func (a Alert) fires(v float64) bool {
	switch {
	case v == a.Bound:
		return a.Equal
	case a.Above:
		return v > a.Bound
	}
	return v < a.Bound
}
