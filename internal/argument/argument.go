package argument

// Need panics unless the argument is given. The name says which one it is, and of what: "job: NewWorker: the store".
func Need(given bool, name string) {
	if !given {
		panic(name + " is nil")
	}
}
