// Package verdict keeps the errors of the items of a list.
package verdict
