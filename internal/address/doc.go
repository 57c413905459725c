// Package address checks URLs of stores, sources, sinks and logs before they are taken apart.
package address
