// Package near finds the name that a misspelt one most likely stands for.
package near
