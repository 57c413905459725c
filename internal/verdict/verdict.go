package verdict

// List has an error or nil for each item of a list. It stays nil until there is an error.
type List []error

// Set stores the error of item i of n.
func (l *List) Set(i, n int, err error) {
	if err == nil {
		return
	}
	if *l == nil {
		*l = make([]error, n)
	}
	(*l)[i] = err
}
