module github.com/tenetdev/tenet/server

go 1.26.0

require (
	github.com/aymanbagabas/go-udiff v0.4.1
	github.com/google/go-cmp v0.7.0
	github.com/tenetdev/tenet v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/gowebpki/jcs v1.0.2 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
)
