// Package argument refuses missing arguments where a function has no error to return.
package argument
