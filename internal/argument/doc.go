// Package argument panics on missing arguments in functions that do not return an error.
package argument
