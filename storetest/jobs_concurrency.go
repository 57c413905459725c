package storetest

func concurrencyCases() []jobsCase { return nil }
func randomCases() []jobsCase      { return nil }
