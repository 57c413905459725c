package main

import (
	"context"
	"errors"
	"log/slog"
	"strconv"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"

	"github.com/tenetdev/tenet/bench/jobs/riversqlite/measure"
)

// payload is the payload of a job that does nothing.
type payload struct {
	N int `json:"n"`
}

const jobType = "noop"

// tenetJobs is Tenet on any of its stores.
type tenetJobs struct {
	store  job.Store
	client *job.Client
	slots  int           // 0: the worker's default
	keys   int           // above 0: every job has one of so many keys, in turn
	keyed  int           // how many jobs have got one
	flows  int           // above 0: jobs are stored as flows, once there are so many or all are there
	held   []job.Request // of the next flow
	shape  func([]job.FlowJob) *job.Flow
	settle func(context.Context) error
	close  func() error

	address string // of a PostgreSQL database
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// tenetPostgres opens Tenet on a new database; 0 slots and 0 connections mean the defaults.
func tenetPostgres(slots, conns int) opener {
	return func(ctx context.Context, env *environment) (measure.System, error) {
		address, drop, err := env.database(ctx)
		if err != nil {
			return nil, err
		}
		db, err := postgres.Open(ctx, address, postgres.Options{MaxConns: conns, Logger: quiet()})
		if err != nil {
			return nil, errors.Join(err, drop())
		}
		s := newTenet(db.Jobs(), slots)
		s.address = address
		s.settle = func(ctx context.Context) error { return tidy(ctx, address) }
		s.close = func() error { return errors.Join(db.Close(), drop()) }
		if _, err := db.Migrate(ctx, migrate.Up, false); err != nil {
			return nil, errors.Join(err, s.close())
		}
		return s, nil
	}
}

// tenetSQLite opens Tenet on a new file with its default, synchronous=FULL.
func tenetSQLite(slots int) opener {
	return func(ctx context.Context, env *environment) (measure.System, error) {
		path, remove, err := env.file()
		if err != nil {
			return nil, err
		}
		db, err := sqlite.Open(ctx, path, sqlite.Options{Create: true})
		if err != nil {
			return nil, errors.Join(err, remove())
		}
		s := newTenet(db.Jobs(), slots)
		s.settle = func(context.Context) error { return nil }
		s.close = func() error { return errors.Join(db.Close(), remove()) }
		return s, nil
	}
}

func newTenet(store job.Store, slots int) *tenetJobs {
	return &tenetJobs{store: store, client: job.NewClient(store), slots: slots}
}

func (s *tenetJobs) Insert(ctx context.Context) error {
	_, err := s.client.Enqueue(ctx, job.Request{Type: jobType, Payload: payload{}})
	return err
}

func (s *tenetJobs) InsertMany(ctx context.Context, n int) error {
	list := make([]job.Request, n)
	for i := range list {
		list[i] = job.Request{Type: jobType, Payload: payload{N: i}}
		if s.keys > 0 {
			list[i].Meta = map[string]string{"key": strconv.Itoa(s.keyed % s.keys)}
			s.keyed++
		}
	}
	if s.flows > 0 {
		if s.held = append(s.held, list...); len(s.held) < s.flows {
			return nil
		}
		return s.storeFlow(ctx)
	}
	_, err := s.client.EnqueueMany(ctx, list)
	return err
}

// storeFlow stores the jobs that are held as a flow.
func (s *tenetJobs) storeFlow(ctx context.Context) error {
	nodes := make([]job.FlowJob, len(s.held))
	for i := range nodes {
		nodes[i] = job.FlowJob{Request: s.held[i], Node: strconv.Itoa(i)}
	}
	s.held = nil
	_, err := s.client.EnqueueFlow(ctx, s.shape(nodes))
	return err
}

// fanIn makes a flow whose last job needs all others.
func fanIn(nodes []job.FlowJob) *job.Flow {
	flow, last := &job.Flow{}, len(nodes)-1
	flow.Chain(flow.Group(nil, nodes[:last]...), nodes[last])
	return flow
}

// fanOut makes a flow whose jobs all need the first, and whose last job needs all others.
func fanOut(nodes []job.FlowJob) *job.Flow {
	flow, last := &job.Flow{}, len(nodes)-1
	flow.Chain(flow.Group(flow.Chain(nil, nodes[0]), nodes[1:last]...), nodes[last])
	return flow
}

// byKey bounds how many of the jobs of a key run at a time.
func byKey(open opener, keys int) opener {
	return func(ctx context.Context, env *environment) (measure.System, error) {
		system, err := open(ctx, env)
		if err != nil {
			return nil, err
		}
		s := system.(*tenetJobs)
		s.keys = keys
		err = s.store.(job.Limiter).SetLimit(ctx, job.LimitSetting{
			LimitName: job.LimitName{Queue: job.DefaultQueue, Name: "by-key"},
			Limit:     &policy.JobLimit{Key: []string{"meta.key"}, Concurrency: 10},
		})
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		return s, nil
	}
}

// apart enqueues by another store than the worker's, as another process does.
func apart(open opener) opener {
	return func(ctx context.Context, env *environment) (measure.System, error) {
		system, err := open(ctx, env)
		if err != nil {
			return nil, err
		}
		s := system.(*tenetJobs)
		db, err := postgres.Open(ctx, s.address, postgres.Options{Logger: quiet()})
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.client = job.NewClient(db.Jobs())
		rest := s.close
		s.close = func() error { return errors.Join(db.Close(), rest()) }
		return s, nil
	}
}

// inFlows enqueues jobs as flows of a size, or of all jobs that fill the store if there are fewer.
func inFlows(open opener, size int, shape func([]job.FlowJob) *job.Flow) opener {
	return func(ctx context.Context, env *environment) (measure.System, error) {
		system, err := open(ctx, env)
		if err != nil {
			return nil, err
		}
		s := system.(*tenetJobs)
		s.flows, s.shape = size, shape
		return s, nil
	}
}

func (s *tenetJobs) Work(ctx context.Context, ran func()) (func() error, error) {
	options := []job.WorkerOption{job.WithLogger(quiet())}
	if s.slots > 0 {
		options = append(options, job.WithQueues(map[string]int{job.DefaultQueue: s.slots}))
	}
	w := job.NewWorker(s.store, options...)
	job.Handle(w, jobType, func(context.Context, job.Job[payload]) error {
		ran()
		return nil
	})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

func (s *tenetJobs) Left(ctx context.Context) (int, error) {
	admin, ok := s.store.(job.Admin)
	if !ok {
		return 0, errors.New("the store cannot count its jobs")
	}
	stats, err := admin.Stats(ctx)
	n := 0
	for _, q := range stats {
		n += q.Waiting + q.Scheduled + q.Ready + q.Running + q.Dead + q.Cancelled
	}
	return n, err
}

func (s *tenetJobs) Claim(ctx context.Context, n int) (int, error) {
	list, err := s.store.Claim(ctx, job.Claim{Worker: "bench", Queues: []job.Slots{{Queue: job.DefaultQueue, Free: n}}, Types: []string{jobType}, Lease: job.DefaultLease})
	return len(list), err
}

// Address is the address of the database.
func (s *tenetJobs) Address() string { return s.address }

func (s *tenetJobs) Settle(ctx context.Context) error {
	if len(s.held) > 0 {
		if err := s.storeFlow(ctx); err != nil {
			return err
		}
	}
	return s.settle(ctx)
}

func (s *tenetJobs) Close() error { return s.close() }
