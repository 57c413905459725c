// Package storable makes text storable in every store, and finds JSON whose texts would be changed on the way to one.
package storable
