// Package debian finds the programs that tests run, and installs the Debian packages of those that are missing.
//
// # The model
//
// A test asks for the program of a package with [Find]. Where the program is missing, Find installs the package with
// apt-get, which needs root; for other users the error says what to install. Test processes that find programs missing at
// the same time install one after another. [FindAll] installs everything that is missing in one step: `make test` does so
// before the tests begin.
package debian
