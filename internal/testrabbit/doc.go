// Package testrabbit runs a private RabbitMQ for tests.
//
// # The model
//
// A test binary starts one server in TestMain and closes it at the end. Each test uses queues of its own. The server, its
// Erlang distribution and its port mapper (epmd) listen on free ports of 127.0.0.1 and know nothing of others; data, log and
// cookie are in a temporary folder that is removed with it. No plugin is on. It dies with the test process, also when that
// is killed.
//
//	func TestMain(m *testing.M) {
//		server, err := testrabbit.Start()
//		…
//		code := m.Run()
//		err = server.Close()
//		os.Exit(code)
//	}
//
// [Server.Stop] and [Server.Kill] make outages, [Server.Run] ends them; durable queues and what publishers were told to be
// stored outlive both. [Open] uses the server of the environment variable TENET_TEST_RABBITMQ where that is set; [Start]
// never does. Where RabbitMQ is not installed, it is installed by apt-get, which needs root.
package testrabbit
