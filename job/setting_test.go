package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/job"
)

// set changes a setting of the bench's store.
func (b *bench) set(s job.Setting, err error) {
	b.t.Helper()
	if err == nil {
		_, err = job.ChangeSetting(context.Background(), b.store, s, nil)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func TestJ22WorkersFollowTheConcurrencyOfTheStoreWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.set(job.ConcurrencySetting("early", 7))
		open, named := job.NewWorker(b.store, quiet), job.NewWorker(b.store, quiet, job.WithQueues(map[string]int{"mail": 5}))
		both := job.NewWorker(b.store, quiet, job.WithStoredQueues(), job.WithQueues(map[string]int{"mail": 5}))
		var stops []func()
		for _, w := range []*job.Worker{open, named, both} {
			stops = append(stops, b.run(w))
		}
		check := func(openly, mail, all map[string]int) {
			t.Helper()
			time.Sleep(time.Second)
			got := []map[string]int{open.Queues(), named.Queues(), both.Queues()}
			if diff := cmp.Diff([]map[string]int{openly, mail, all}, got); diff != "" {
				t.Error(diff)
			}
		}
		type m = map[string]int
		check(m{"default": 100, "early": 7}, m{"mail": 5}, m{"early": 7, "mail": 5})
		b.set(job.ConcurrencySetting("mail", 2))
		b.set(job.ConcurrencySetting("default", 1))
		check(m{"default": 1, "early": 7, "mail": 2}, m{"mail": 2}, m{"default": 1, "early": 7, "mail": 2})
		named.SetQueues(m{"mail": 9, "default": 3}) // a document's defaults stay behind
		check(m{"default": 1, "early": 7, "mail": 2}, m{"default": 1, "mail": 2}, m{"default": 1, "early": 7, "mail": 2})
		for _, name := range []string{"mail", "default", "early"} {
			b.set(job.Setting{Kind: job.SettingConcurrency, Name: name}, nil)
		}
		check(m{"default": 100}, m{"default": 3, "mail": 9}, m{"mail": 5})
		for _, stop := range stops {
			stop()
		}
	})
}

func TestJ22ANewQueueIsServedAndASmallerOneRunsFewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most := map[string]int{}, map[string]int{}
		begin, end := make(chan string), make(chan string)
		go func() {
			for {
				select {
				case q, ok := <-begin:
					if !ok {
						return
					}
					running[q]++
					most[q] = max(most[q], running[q])
				case q := <-end:
					running[q]--
				}
			}
		}()
		b := work(t, func(_ context.Context, j job.Job[[]byte]) error {
			begin <- j.Queue
			time.Sleep(10 * time.Second)
			end <- j.Queue
			return nil
		})
		b.set(job.ConcurrencySetting("new", 3))
		b.set(job.ConcurrencySetting(job.DefaultQueue, 2))
		time.Sleep(time.Second)
		for range 6 {
			b.enqueue(job.Request{Queue: "new"})
			b.enqueue(job.Request{})
		}
		time.Sleep(time.Minute)
		b.stop()
		close(begin)
		synctest.Wait()
		if diff := cmp.Diff(map[string]int{"new": 3, job.DefaultQueue: 2}, most); diff != "" {
			t.Error(diff)
		}
	})
}

// ticks returns the queues in which each tick of periodic jobs was enqueued, in the order of the ticks.
func (b *bench) ticks() (list []string, queues map[string][]string) {
	b.t.Helper()
	queues = map[string][]string{}
	jobs, err := b.store.List(context.Background(), job.Filter{}, "", 1_000_000)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range jobs {
		queues[r.UniqueKey] = append(queues[r.UniqueKey], r.Queue)
	}
	return slices.Sorted(maps.Keys(queues)), queues
}

func often(queue string, missed job.Missed) job.Periodic {
	return job.Periodic{Name: "p", Cron: "@every 2s", Missed: missed, Request: job.Request{Type: "t", Queue: queue}}
}

func TestJ22PeriodicJobsFollowTheStoreAndGoBackToTheirDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := work(t, func(context.Context, job.Job[[]byte]) error { return nil }, job.WithPeriodic(often("file", job.MissedSkip)))
		for _, s := range []job.Setting{
			must(job.PeriodicSetting(often("a", job.MissedSkip))), job.DeletedPeriodicSetting("p"),
			must(job.PeriodicSetting(often("b", job.MissedSkip))), {Kind: job.SettingPeriodic, Name: "p"},
		} {
			time.Sleep(20 * time.Second)
			b.set(s, nil)
		}
		b.set(job.PeriodicSetting(job.Periodic{Name: "other", Cron: "@every 5s", Request: job.Request{Type: "t", Queue: "other"}}))
		time.Sleep(20 * time.Second)
		b.stop()
		counts := map[string]int{}
		_, queues := b.ticks()
		for key, list := range queues {
			if len(list) != 1 {
				t.Errorf("tick %s was enqueued in %v", key, list)
			}
			counts[list[0]]++
		}
		if n := counts["other"]; n < 3 || n > 4 {
			t.Errorf("%d ticks of the new job", n)
		}
		delete(counts, "other")
		if counts["file"] < 18 || counts["file"] > 22 || counts["a"] < 9 || counts["a"] > 11 || counts["b"] < 9 || counts["b"] > 11 {
			t.Errorf("ticks by queue: %v", counts)
		}
	})
}

// Workers that have not seen the first change yet would follow three definitions at once.
func TestJ22APeriodicJobIsNotChangedAgainBeforeAllWorkersFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		begin := time.Now()
		b.set(job.PeriodicSetting(often("a", job.MissedSkip)))
		b.set(job.ConcurrencySetting("mail", 2))
		b.set(job.ConcurrencySetting("mail", 3))
		if took := time.Since(begin); took > 0 {
			t.Errorf("other settings waited %v", took)
		}
		b.set(job.PeriodicSetting(often("b", job.MissedSkip)))
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("the second change came after %v", took)
		}
	})
}

// Workers stop and start at awkward moments, each of which may make another one the leader, while an operator changes the queue
// of a periodic job back and forth.
func TestJ22EachTickIsEnqueuedOnceWhateverChangesAndRestartsHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		handler := func(context.Context, job.Job[[]byte]) error { return nil }
		start := func() func() {
			return b.start(b.store, handler, job.WithPeriodic(often("file", job.MissedOnce)), job.WithGrace(time.Millisecond))
		}
		workers := []func(){start(), start()}
		time.Sleep(30 * time.Second)
		for i := range 40 {
			switch i % 4 {
			case 0, 1, 2:
				b.set(job.PeriodicSetting(often(fmt.Sprint("q", i%3), job.MissedAll)))
			case 3:
				b.set(job.Setting{Kind: job.SettingPeriodic, Name: "p"}, nil)
			}
			time.Sleep(time.Duration(i%5) * 300 * time.Millisecond)
			workers[i%2]()
			workers[i%2] = start()
			time.Sleep(11*time.Second + time.Duration(i%7)*700*time.Millisecond) // a worker that starts knows the last two definitions
		}
		time.Sleep(time.Minute)
		for _, stop := range workers {
			stop()
		}
		list, queues := b.ticks()
		moved := map[string]bool{}
		for _, key := range list {
			if len(queues[key]) != 1 {
				t.Errorf("tick %s was enqueued in %v", key, queues[key])
			}
			moved[queues[key][0]] = true
		}
		if len(moved) != 4 {
			t.Errorf("only the queues %v had ticks", moved)
		}
		at := func(key string) time.Time {
			when, err := time.Parse(time.RFC3339, strings.TrimPrefix(key, "periodic/p/"))
			if err != nil {
				t.Fatal(err)
			}
			return when
		}
		from := slices.IndexFunc(list, func(key string) bool { return queues[key][0] != "file" })
		for i := from; i < len(list); i++ {
			if gap := at(list[i]).Sub(at(list[i-1])); gap != 2*time.Second {
				t.Errorf("after the tick %s the next is %s", list[i-1], list[i])
			}
		}
	})
}

func must(s job.Setting, err error) job.Setting {
	if err != nil {
		panic(err)
	}
	return s
}

func TestJ22APeriodicJobOfTheStoreKeepsItsDefinition(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	p := job.Periodic{Name: "nightly", Cron: "0 3 * * *", Location: berlin, Missed: job.MissedOnce, Request: job.Request{
		Type: "report", Queue: "q", Payload: map[string]any{"a": 1}, Priority: 3, MaxAttempts: 4, Timeout: time.Minute, Meta: map[string]string{"k": "v"},
	}}
	s := must(job.PeriodicSetting(p))
	got, deleted, err := s.Periodic()
	if err != nil || deleted {
		t.Fatal(deleted, err)
	}
	p.Request.Payload = json.RawMessage(`{"a":1}`)
	if diff := cmp.Diff(p, *got, cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })); diff != "" {
		t.Error(diff)
	}
	states := job.PeriodicJobs([]job.Periodic{{Name: "nightly", Cron: "@daily"}, {Name: "other", Cron: "@daily"}, {Name: "gone", Cron: "@daily"}},
		[]job.Setting{s, job.DeletedPeriodicSetting("gone"), {Kind: job.SettingPeriodic, Name: "other"}})
	var lines []string
	for _, state := range states {
		lines = append(lines, fmt.Sprintf("%s %s %v", state.Name, state.Cron, state.Set.Value != nil))
	}
	if diff := cmp.Diff([]string{"nightly 0 3 * * * true", "other @daily false"}, lines); diff != "" {
		t.Error(diff)
	}
}

func TestJ22SettingsThatWorkersCouldNotFollowAreRefused(t *testing.T) {
	store := newBench(t).store
	fine := often("q", "")
	for text, s := range map[string]func() (job.Setting, error){
		"concurrency: 0 is not a number from 1 to 100000; to stop a queue, pause it": func() (job.Setting, error) { return job.ConcurrencySetting("q", 0) },
		"concurrency: 100001 is not a number":                                        func() (job.Setting, error) { return job.ConcurrencySetting("q", 100_001) },
		"name: missing":                                                              func() (job.Setting, error) { return job.ConcurrencySetting("", 1) },
		"name: 256 bytes":                                                            func() (job.Setting, error) { return job.DeletedPeriodicSetting(strings.Repeat("x", 256)), nil },
		`kind: "nonsense" is unknown`:                                                func() (job.Setting, error) { return job.Setting{Kind: "nonsense", Name: "x"}, nil },
		`cron "never"`: func() (job.Setting, error) {
			return job.PeriodicSetting(job.Periodic{Name: "p", Cron: "never", Request: job.Request{Type: "t"}})
		},
		"type: missing": func() (job.Setting, error) { return job.PeriodicSetting(job.Periodic{Name: "p", Cron: "@daily"}) },
		"payload: not JSON": func() (job.Setting, error) {
			fine.Request.Payload = []byte("x")
			return job.PeriodicSetting(fine)
		},
		`unknown field "corn"`: func() (job.Setting, error) {
			return job.Setting{Kind: job.SettingPeriodic, Name: "p", Value: json.RawMessage(`{"corn":"@daily"}`)}, nil
		},
	} {
		x, err := s()
		if err == nil {
			_, err = job.ChangeSetting(t.Context(), store, x, nil)
		}
		refused, ok := errors.AsType[*job.SettingError](err)
		if !ok || !strings.Contains(refused.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
}
