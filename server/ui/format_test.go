package ui

import "testing"

func TestFiguresAreWrittenForPeople(t *testing.T) {
	for share, want := range map[float64]string{
		0: "0 %", 0.0004: "0.04 %", 0.052: "5.2 %", 0.126: "13 %", 0.9949: "99.5 %", 0.996: "99.6 %", 0.99999: "99.9 %", 1: "100 %",
	} {
		if got := percent(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
	for s, want := range map[float64]string{
		0: "0 s", 0.0004: "0.4 ms", 0.0351: "35 ms", 0.9994: "999 ms", 0.9996: "1 s", 1.24: "1.2 s", 59.7: "1 min", 200: "3 min 20 s", 7500: "2 h 5 min", 273600: "3 d 4 h",
	} {
		if got := seconds(s); got != want {
			t.Errorf("%v s: %s, want %s", s, got, want)
		}
	}
	for n, want := range map[any]string{0: "0", 999: "999", 1234567: "1,234,567", -1000: "−1,000", uint64(1 << 20): "1,048,576", "x": "x"} {
		if got := number(n); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
}
