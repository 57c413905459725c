package fields

// Join returns the path of a field in the object at path, which is "" for the outermost.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
