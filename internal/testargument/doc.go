// Package testargument checks how functions refuse missing arguments.
package testargument
