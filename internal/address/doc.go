// Package address checks URLs of stores, sources, sinks and logs before they are parsed, and words the errors of adapters.
package address
