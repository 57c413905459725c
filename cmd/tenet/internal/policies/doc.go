// Package policies checks, shows and imports policy documents.
package policies
