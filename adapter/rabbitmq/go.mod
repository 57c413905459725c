module github.com/tenetdev/tenet/adapter/rabbitmq

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/tenetdev/tenet v0.0.0
	go.uber.org/goleak v1.3.0
)

require github.com/gowebpki/jcs v1.0.2 // indirect
