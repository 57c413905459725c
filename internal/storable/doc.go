// Package storable makes text from data keepable by every store.
package storable
