package ui

import (
	"math"
	"strconv"
	"time"
)

// chart is a figure of lines over time, drawn by a script. Its caption says the last value of each line, and a table below it
// some of the values.
type chart struct {
	ID    string    `json:"-"` // of the element; unique on the page
	Title string    `json:"title"`
	Unit  string    `json:"unit"` // number, rate, seconds or times: how values are written
	Start int64     `json:"start,omitempty"`
	X     []float64 `json:"x"` // seconds since Start, which is in seconds since 1970
	// Elapsed is set where X does not say when something happened, but how long after the beginning.
	Elapsed bool       `json:"elapsed,omitempty"`
	Series  []series   `json:"series"`
	Rows    []chartRow `json:"-"` // the newest first
}

// series is a line of a chart.
type series struct {
	Name   string     `json:"name"`
	Color  int        `json:"color"`  // 1 to 6: the custom properties --line-1 to --line-6
	Values []*float64 `json:"values"` // nil is a gap
	Last   string     `json:"-"`      // the last value, as the caption writes it
}

// chartRow is a row of the table of a chart.
type chartRow struct {
	At     string
	Values []string
}

// written writes a value as a chart's unit wants it; nil is none.
func written(unit string, v *float64) string {
	switch {
	case v == nil:
		return "none"
	case unit == "seconds":
		return seconds(*v)
	case unit == "rate":
		return shortNumber(*v) + "/s"
	case unit == "times":
		return shortNumber(*v) + "×"
	}
	return number(*v)
}

// shortNumber writes a number above 100 as an integer, and others to three digits.
func shortNumber(v float64) string {
	if math.Abs(v) >= 100 {
		return number(v)
	}
	return strconv.FormatFloat(rounded(v), 'f', -1, 64)
}

// rounded returns a number to three digits, and one above 100 to an integer.
func rounded(v float64) float64 {
	if math.Abs(v) >= 100 {
		return math.Round(v)
	}
	out, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // a number that was just written
	return out
}

// chartRows is about how many rows the table of a chart has.
const chartRows = 12

// finish fills in the captions and the table.
func (c *chart) finish() {
	for i := range c.Series {
		s := &c.Series[i]
		s.Last = "none"
		for _, v := range s.Values {
			if v != nil {
				s.Last = written(c.Unit, v)
			}
		}
	}
	every := max(1, len(c.X)/chartRows)
	for at := len(c.X) - 1; at >= 0; at -= every {
		row := chartRow{At: clock(time.Unix(c.Start+int64(c.X[at]), 0))}
		if c.Elapsed {
			row.At = seconds(c.X[at])
		}
		for _, s := range c.Series {
			row.Values = append(row.Values, written(c.Unit, s.Values[at]))
		}
		c.Rows = append(c.Rows, row)
	}
}
