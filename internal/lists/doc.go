// Package lists adds to package slices.
package lists
