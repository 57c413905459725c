package ui

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// scale is how a time axis maps time to width: scaleEven gives every span a readable width, by the logarithm of its length;
// any other maps time in proportion, and is how many times the axis is as wide as the window.
type scale int

const scaleEven scale = 0

func parseScale(text string) scale {
	switch n, _ := strconv.Atoi(text); n {
	case 1, 4, 16, 64:
		return scale(n)
	}
	return scaleEven
}

func (s scale) text() string {
	if s == scaleEven {
		return ""
	}
	return strconv.Itoa(int(s))
}

func (s scale) name() string {
	switch s {
	case scaleEven:
		return "Readable"
	case 1:
		return "To scale"
	}
	return "× " + strconv.Itoa(int(s))
}

// Sizes of the axis, in pixels.
const (
	axisWidth  = 960
	axisTop    = 12
	barHeight  = 34
	axisBottom = axisTop + barHeight
	axisHeight = axisBottom + 40
	leastBar   = 3
	leastTick  = 92 // between labels
)

// axis is the attempts of a job on a time axis.
type axis struct {
	Width, Height, Base int
	Text                string // what it shows, for those who do not see it
	Spans               []axisSpan
	Ticks               []axisTick
	Legend              []string // the kinds of spans, in order of appearance
}

// axisSpan is an attempt, or a wait between two.
type axisSpan struct {
	Kind                string // wait, running, or an attempt's outcome
	Label               string // in the bar, if it fits
	Title               string
	X, Y, Width, Height int
	Middle              int

	from, to time.Time
}

// axisTick is a time on the axis.
type axisTick struct {
	X    int
	Text string
	Full string // the exact time
	End  bool   // the text ends at X
}

const (
	spanWait    = "wait"
	spanRunning = "running"
)

// newAxis draws a history. It depends on nothing but what is stored, so that it changes only when the job does.
func newAxis(j *api.Job, history []api.Attempt, s scale) axis {
	spans := axisSpans(j, history)
	a := axis{Height: axisHeight, Base: axisBottom}
	if len(spans) == 0 {
		return a
	}
	position := evenly(spans)
	a.Width = axisWidth
	if s != scaleEven {
		a.Width = axisWidth * int(s)
		position = inProportion(spans)
	}
	seen := map[string]bool{}
	attempts := 0
	for i := range spans {
		span := &spans[i]
		from, to := int(math.Round(position[i]*float64(a.Width))), int(math.Round(position[i+1]*float64(a.Width)))
		span.X, span.Width, span.Y, span.Height = from, max(to-from, leastBar), axisTop, barHeight
		if span.Kind == spanWait {
			span.Y, span.Height, span.Width = axisTop+barHeight/2-2, 4, max(to-from, 0)
		} else {
			attempts++
		}
		if span.X+span.Width > a.Width {
			span.X = a.Width - span.Width
		}
		if span.Middle = span.X + span.Width/2; span.Width < 9*len([]rune(span.Label))+4 {
			span.Label = ""
		}
		if !seen[span.Kind] {
			seen[span.Kind] = true
			a.Legend = append(a.Legend, span.Kind)
		}
	}
	a.Spans = spans
	a.Ticks = axisTicks(spans, a.Width)
	first, last := spans[0].from, spans[len(spans)-1].to
	a.Text = fmt.Sprintf("Time axis of %s over %s, from %s to %s. The list below says the same in words.",
		plural(attempts, "attempt", "attempts"), seconds(last.Sub(first).Seconds()), exact(first), exact(last))
	return a
}

// exact writes a time for people, with its zone.
func exact(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// axisSpans lists attempts and the waits around them in the order of time.
func axisSpans(j *api.Job, history []api.Attempt) (spans []axisSpan) {
	at := j.CreatedAt
	if len(history) > 0 && history[0].Attempt > 1 { // older rows were left out
		at = history[0].Started
	}
	add := func(kind, label, title string, from, to time.Time) {
		if from.Before(at) {
			from = at
		}
		if to.Before(from) {
			to = from
		}
		if from.After(at) {
			spans = append(spans, axisSpan{Kind: spanWait, Title: "waited " + seconds(from.Sub(at).Seconds()), from: at, to: from})
		}
		spans = append(spans, axisSpan{Kind: kind, Label: label, Title: title, from: from, to: to})
		at = to
	}
	for i, h := range history {
		label := strconv.Itoa(h.Attempt)
		title := fmt.Sprintf("attempt %d: %s, %s, %s", h.Attempt, h.Outcome, h.Reason, seconds(max(0, h.Finished.Sub(h.Started).Seconds())))
		if h.Outcome == job.AttemptRefused {
			label = strconv.Itoa(h.Count) + "×"
			title = fmt.Sprintf("refused %s: %s", plural(h.Count, "time", "times"), h.Reason)
		}
		add(string(h.Outcome), label, title, h.Started, ended(history, i))
	}
	switch j.State {
	case job.Running:
		add(spanRunning, strconv.Itoa(j.Failures+1), "running; its lease ends at "+exact(j.LeaseUntil), j.ClaimedAt, j.LeaseUntil)
	case job.Scheduled:
		if j.RunAt.After(at) {
			spans = append(spans, axisSpan{Kind: spanWait, Title: "waits until " + exact(j.RunAt), from: at, to: j.RunAt})
		}
	case job.Waiting, job.Ready, job.Completed, job.Dead, job.Cancelled:
	}
	return spans
}

// evenly returns where the spans begin, from 0 to 1, and where the last one ends: widths grow with the logarithm of lengths.
func evenly(spans []axisSpan) []float64 {
	weight := func(s *axisSpan) float64 {
		w := math.Log10(1 + s.to.Sub(s.from).Seconds()*1000)
		if s.Kind == spanWait {
			return 0.3 + w/2
		}
		return 0.8 + w
	}
	sum := 0.0
	for i := range spans {
		sum += weight(&spans[i])
	}
	position := make([]float64, 1, len(spans)+1)
	for i := range spans {
		position = append(position, min(position[i]+weight(&spans[i])/sum, 1))
	}
	return position
}

// inProportion returns where the spans begin, in proportion to time.
func inProportion(spans []axisSpan) []float64 {
	first, last := spans[0].from, spans[len(spans)-1].to
	all := cmp.Or(last.Sub(first).Seconds(), 1)
	position := make([]float64, 0, len(spans)+1)
	for i := range spans {
		position = append(position, spans[i].from.Sub(first).Seconds()/all)
	}
	return append(position, 1)
}

// axisTicks labels the ends of attempts as far as there is room: the first and the last always.
func axisTicks(spans []axisSpan, width int) (ticks []axisTick) {
	first, last := spans[0].from, &spans[len(spans)-1]
	ticks = append(ticks, axisTick{X: 0, Text: first.UTC().Format("15:04:05.000"), Full: exact(first)})
	end := axisTick{X: width, Text: "+ " + seconds(last.to.Sub(first).Seconds()), Full: exact(last.to), End: true}
	for i := range spans {
		s := &spans[i]
		if s.Kind == spanWait || s.X-ticks[len(ticks)-1].X < leastTick || width-s.X < 2*leastTick {
			continue
		}
		ticks = append(ticks, axisTick{X: s.X, Text: "+ " + seconds(s.from.Sub(first).Seconds()), Full: exact(s.from)})
	}
	return append(ticks, end)
}
