// Package testredis runs a private Redis for tests.
//
// # The model
//
// A test binary starts one server in TestMain and closes it at the end. The server listens on a free port of 127.0.0.1; its data is
// in a temporary folder that is removed with it. It dies with the test process, also when that is killed.
//
// [Server.Stop] and [Server.Kill] make outages, [Server.Run] ends them; every write outlives both, since the server appends each to
// its log. [Open] uses the server of the environment variable TENET_TEST_REDIS where that is set; [Start] never does. Where Redis is
// not installed, it is installed by apt-get, which needs root.
package testredis
