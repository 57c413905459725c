package lists

// Map returns f of each element of a list, in order. The result is never nil.
func Map[T, R any](list []T, f func(T) R) []R {
	mapped := make([]R, len(list))
	for i, x := range list {
		mapped[i] = f(x)
	}
	return mapped
}

// Texts returns the elements of a list as strings.
func Texts[T ~string](list []T) []string {
	return Map(list, func(x T) string { return string(x) })
}
