package ui

// chart is a figure of lines over time, drawn by a script. Its caption says the last value of each line.
type chart struct {
	Title  string    `json:"title"`
	Unit   string    `json:"unit"` // number, rate, seconds or percent: how values are written
	X      []float64 `json:"x"`    // seconds since 1970
	Series []series  `json:"series"`
}

// series is a line of a chart.
type series struct {
	Name   string     `json:"name"`
	Color  int        `json:"color"` // 1 to 6: the custom properties --line-1 to --line-6
	Values []*float64 `json:"values"`
	Last   string     `json:"-"` // the last value, as the caption writes it
}
