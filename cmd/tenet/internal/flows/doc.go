// Package flows is the command group "tenet flows" ([Command]).
package flows
