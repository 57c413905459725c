package ui

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// delays is the shape of the waits of a policy: how long before each retry, and when each attempt can start.
type delays struct {
	Waits          []delayRow
	More           int // retries that are not shown
	Cap            time.Duration
	Overall        time.Duration
	Height, Width  float64
	CapY           float64
	Ticks          []tick
	TotalLow       time.Duration
	TotalMid       time.Duration
	TotalHigh      time.Duration
	TimelineHeight float64
	OverallX       float64
	TimeTicks      []tick
	Label          string
}

// delayRow is a retry: the range of the wait before it, and of the time at which it starts if attempts take no time.
type delayRow struct {
	Retry                int
	Low, Median, High    time.Duration
	From, Middle, To     time.Duration
	Late                 bool    // the overall timeout can end the work before it
	X, LowY, MidY, HighY float64 // of the bar
	BarHeight            float64
	Y, FromX, MidX, Wide float64 // of the span
}

// tick is a line of a scale.
type tick struct {
	At   float64
	Text string
}

// Sizes of the drawings in pixels.
const (
	shownRetries = 24
	barStep      = 34
	barArea      = 150
	leftMargin   = 64
	topMargin    = 14
	spanStep     = 20
	spanArea     = 480
	farBound     = 6 // a bound that is farther away than this many times what is drawn is only named
)

// newDelays draws the waits of a compiled retry policy.
func newDelays(r *policy.Retry) *delays {
	d := &delays{Cap: r.MaxBackoff, Overall: r.OverallTimeout}
	retries := max(r.MaxAttempts-1, 0)
	n := min(retries, shownRetries)
	d.More = retries - n
	for i := range n {
		low, high := decision.Bounds(r, i)
		row := delayRow{Retry: i + 1, Low: low, Median: medianDelay(r, i), High: high}
		d.TotalLow, d.TotalMid, d.TotalHigh = decision.Sum(d.TotalLow, low), decision.Sum(d.TotalMid, row.Median), decision.Sum(d.TotalHigh, high)
		row.From, row.Middle, row.To = d.TotalLow, d.TotalMid, d.TotalHigh
		row.Late = d.Overall > 0 && row.To > d.Overall
		d.Waits = append(d.Waits, row)
	}
	if n == 0 {
		return d
	}
	d.draw()
	return d
}

// sampledSeeds is the number of seeds over which the median of waits is taken whose range depends on the wait before.
const sampledSeeds = 201

// medianDelay is the median of the wait before retry i over all seeds.
func medianDelay(r *policy.Retry, i int) time.Duration {
	low, high := decision.Bounds(r, i)
	if r.Jitter != policy.JitterDecorrelated {
		return low + (high-low)/2 // draws are uniform
	}
	list := make([]time.Duration, sampledSeeds)
	for k := range list {
		list[k] = decision.Delay(r, decision.Seed(strconv.Itoa(k)), i)
	}
	slices.Sort(list)
	return list[sampledSeeds/2]
}

func (d *delays) draw() {
	var shown time.Duration
	for _, w := range d.Waits {
		shown = max(shown, w.High)
	}
	top := shown
	if d.Cap/farBound <= shown {
		top = max(shown, d.Cap)
	}
	y := func(t time.Duration) float64 { return topMargin + barArea*(1-float64(t)/max(float64(top), 1)) }
	d.Width, d.Height = leftMargin+float64(len(d.Waits))*barStep+12, topMargin+barArea+24
	d.Ticks = []tick{{y(0), "0"}, {y(top / 2), seconds((top / 2).Seconds())}, {y(top), seconds(top.Seconds())}}
	if d.CapY = -1; d.Cap > 0 && d.Cap <= top {
		d.CapY = y(d.Cap)
	}
	end := d.TotalHigh
	if d.Overall/farBound <= end {
		end = max(end, d.Overall)
	}
	x := func(t time.Duration) float64 { return leftMargin + spanArea*float64(t)/max(float64(end), 1) }
	for i := range d.Waits {
		w := &d.Waits[i]
		w.X, w.LowY, w.MidY, w.HighY = leftMargin+float64(i)*barStep+8, y(w.Low), y(w.Median), y(w.High)
		w.BarHeight = max(w.LowY-w.HighY, 2)
		w.Y, w.FromX, w.MidX = topMargin+float64(i)*spanStep, x(w.From), x(w.Middle)
		w.Wide = max(x(w.To)-w.FromX, 2)
	}
	d.TimelineHeight = topMargin + float64(len(d.Waits))*spanStep + 24
	d.TimeTicks = []tick{{x(0), "0"}, {x(end / 2), seconds((end / 2).Seconds())}, {x(end), seconds(end.Seconds())}}
	if d.OverallX = -1; d.Overall > 0 && d.Overall <= end {
		d.OverallX = x(d.Overall)
	}
	first, last := d.Waits[0], d.Waits[len(d.Waits)-1]
	d.Label = fmt.Sprintf("The first wait is %s to %s, wait %d is %s to %s", seconds(first.Low.Seconds()), seconds(first.High.Seconds()), last.Retry, seconds(last.Low.Seconds()), seconds(last.High.Seconds()))
}
