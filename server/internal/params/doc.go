// Package params writes the queries of addresses.
package params
