// Package storable makes text storable in every store.
package storable
