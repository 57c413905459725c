// Package testpg runs a private PostgreSQL for tests.
//
// # The model
//
// A test binary starts one server in TestMain and closes it at the end. Each test uses a schema of its own in the server's
// only database. The server listens on a free port of 127.0.0.1 and on a socket in its own temporary folder, which is
// removed with it; fsync is on, as in production, unless the test says [NoSync]. It dies with the test process, also when
// that is killed.
//
//	func TestMain(m *testing.M) {
//		server, err := testpg.Start()
//		…
//		code := m.Run()
//		err = server.Close()
//		os.Exit(code)
//	}
//
// [Open] uses the server of the environment variable TENET_TEST_POSTGRES where that is set. [Start] never does: its
// server may be stopped in order ([Server.Stop]) or as by a crash ([Server.Kill]), and started again ([Server.Run]). Where
// PostgreSQL is not installed, it is installed by apt-get, which needs root. [StartWithClock] starts a server whose clock the
// test sets, so that nothing waits for a lease to run out. [Server.Close] fails if a process of the server has crashed by itself.
package testpg
