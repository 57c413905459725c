// Package tenettest helps to test code that retries. [NewExecutor] makes an executor that works like the real one but records
// the waits between attempts instead of sleeping. [NewJobs] makes a worker that runs jobs in virtual time until none is left:
//
//	synctest.Test(t, func(t *testing.T) {
//		jobs := tenettest.NewJobs(t)
//		SendEmail.Handle(jobs.Worker, handler)
//		SendEmail.Enqueue(t.Context(), jobs.Client, Email{To: "ada@example.org"})
//		for _, r := range jobs.Run() {
//			// r.State, r.Attempts(), r.LastError, r.Output, r.History
//		}
//	})
//
// [Replay] walks through recorded work, which tenet audit extract wrote, under the policies of today:
//
//	tenettest.Replay(t, "testdata/incident.json", set).AssertSame()
package tenettest
