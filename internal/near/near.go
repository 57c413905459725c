package near

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// mostCompared bounds the search for a nearest name in documents with thousands of them.
const mostCompared = 500

// Name returns the known name that takes the fewest edits to reach or else is the beginning of the other; "" where
// none is close.
func Name(name string, known []string) string {
	known = known[:min(len(known), mostCompared)]
	name = strings.ToLower(name)
	best, fewest := "", max(2, len(name)/3)+1
	for _, k := range known {
		if len(k) > len(name)+fewest || len(name) > len(k)+fewest {
			continue
		}
		if n := distance(name, strings.ToLower(k)); n < fewest {
			best, fewest = k, n
		}
	}
	if best == "" && len(name) >= 3 {
		for _, k := range known {
			if strings.HasPrefix(k, name) || strings.HasPrefix(name, k) && len(k) >= 3 {
				return k
			}
		}
	}
	if fewest >= utf8.RuneCountInString(name) { // nothing of the name would remain
		return ""
	}
	return best
}

// Question returns a question to append to an error about an unknown name: whether the nearest known name was meant. It is
// empty where none is close.
func Question(name string, known []string) string {
	if match := Name(name, known); match != "" {
		return fmt.Sprintf("; did you mean %q?", match)
	}
	return ""
}

// distance is the number of insertions, deletions and replacements between two strings (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
