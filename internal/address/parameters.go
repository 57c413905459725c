package address

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Parameters reads the parameters of a URL. A parameter that is absent or empty leaves its option as it is. Errors are
// returned by Rest and Only.
type Parameters struct {
	values url.Values
	names  []string // of those that have been read
	fault  error    // the first one
}

// ReadParameters parses the part of a URL after its question mark.
func ReadParameters(query string) (*Parameters, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("the parameters cannot be read: %w", err)
	}
	return &Parameters{values: values}, nil
}

// Text returns a parameter, or "".
func (p *Parameters) Text(name string) string {
	if !slices.Contains(p.names, name) {
		p.names = append(p.names, name)
	}
	if n := len(p.values[name]); n > 1 && p.fault == nil {
		p.fault = fmt.Errorf("the parameter %q is given %d times; give it once", name, n)
	}
	return p.values.Get(name)
}

// Duration reads a duration above 0.
func (p *Parameters) Duration(name string, to *time.Duration) {
	set(p, name, to, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return 0, errors.New("write a duration above 0, such as 30s")
		}
		return d, nil
	})
}

// Number reads a number above 0.
func (p *Parameters) Number(name string, to *int) {
	set(p, name, to, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n <= 0 {
			return 0, errors.New("write a whole number above 0")
		}
		return n, nil
	})
}

// Switch reads a Boolean value.
func (p *Parameters) Switch(name string, to *bool) {
	set(p, name, to, func(text string) (bool, error) {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return false, errors.New("write true or false")
		}
		return on, nil
	})
}

// set stores a parameter that is given. The errors of parse say what to write.
func set[T any](p *Parameters, name string, to *T, parse func(string) (T, error)) {
	text := p.Text(name)
	if text == "" {
		return
	}
	value, err := parse(text)
	switch {
	case err == nil:
		*to = value
	case p.fault == nil:
		p.fault = fmt.Errorf("%s=%s: %w", name, text, err)
	}
}

// Rest returns the parameters that have not been read, and the first error in those that have.
func (p *Parameters) Rest() (url.Values, error) {
	rest := maps.Clone(p.values)
	for _, name := range p.names {
		rest.Del(name)
	}
	return rest, p.fault
}

// Only is Rest for a URL that may have no other parameters than those that have been read and some more.
func (p *Parameters) Only(more ...string) (url.Values, error) {
	rest, err := p.Rest()
	accepted := slices.Concat(p.names, more)
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		if err == nil && !slices.Contains(more, name) {
			err = fmt.Errorf("unknown parameter %q; accepted are %s", name, strings.Join(accepted, ", "))
		}
	}
	return rest, err
}
