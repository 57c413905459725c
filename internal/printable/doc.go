// Package printable makes text from data fit for terminals and logs.
package printable
