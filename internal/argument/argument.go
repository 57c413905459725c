package argument

// Need panics unless the argument is given. name says which argument of which function is missing: "job: NewWorker: the store".
func Need(given bool, name string) {
	if !given {
		panic(name + " is nil")
	}
}
