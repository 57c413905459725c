package params

import "net/url"

// Of returns a query of names and values in turn. It leaves out names whose value is empty.
func Of(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}
