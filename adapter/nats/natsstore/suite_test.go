package natsstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/storetest"
)

// Environment variables that tell a process of the suite where its data is.
const (
	processURL    = "TENET_TEST_NATS_URL"
	processBucket = "TENET_TEST_NATS_BUCKET"
)

func inProcess() (idempotency.Store, error) {
	db, err := natsstore.Open(context.Background(), os.Getenv(processURL), natsstore.Options{Bucket: os.Getenv(processBucket)})
	if err != nil {
		return nil, err
	}
	return db.Idempotency(), nil
}

func TestIdempotency(t *testing.T) {
	n := start(t)
	buckets := map[idempotency.Store]string{}
	in := func(t *testing.T, bucket string) idempotency.Store {
		s := open(t, n.ClientURL(), func(o *natsstore.Options) { o.Bucket, o.Timeout = bucket, 10*time.Second }).Idempotency()
		buckets[s] = bucket
		return s
	}
	storetest.Idempotency(t, storetest.IdempotencyOptions{
		Open: func(t *testing.T) idempotency.Store { return in(t, fmt.Sprint("b", len(buckets))) },
		Second: func(t *testing.T, first idempotency.Store) idempotency.Store {
			return in(t, buckets[first])
		},
		Process: func(t *testing.T, first idempotency.Store) *exec.Cmd {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), processURL+"="+n.ClientURL(), processBucket+"="+buckets[first])
			return cmd
		},
	})
}

func TestAudit(t *testing.T) {
	var n *natstest.Server
	another := func(t *testing.T, _ audit.Sink) audit.Sink { return open(t, n.ClientURL()).Audit() }
	storetest.Audit(t, storetest.AuditOptions{
		Open: func(t *testing.T) audit.Sink {
			n = start(t)
			return another(t, nil)
		},
		Reopen: another,
		Second: another,
	})
}
