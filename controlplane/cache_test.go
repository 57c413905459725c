package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/policy"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestR2LastKnownGoodSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.serve(getUserPath, policyOf(4))
		path := filepath.Join(t.TempDir(), "made", "policies.lkg")
		o := RemoteOptions{CachePath: path}
		first := newRemote(t, p, o)
		ask(t, first, getUser, 4, policy.SourceRemote, nil)
		ask(t, first, putUser, 0, "", policy.ErrPolicyNotFound)
		time.Sleep(saveAfter)
		synctest.Wait()
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		_ = first.Close()

		p.set(func(p *plane) { p.hang = true })
		second := newRemote(t, p, o)
		for range 3 {
			if took := elapsed(func() { ask(t, second, getUser, 4, policy.SourceLKG, policy.ErrProviderUnavailable) }); took != 0 {
				t.Errorf("a call waited %s although a policy is known", took)
			}
			time.Sleep(time.Minute)
		}
		p.set(func(p *plane) { p.hang = false; p.bodies[getUserPath] = policyOf(5) })
		_, _ = second.Policy(t.Context(), getUser)
		synctest.Wait()
		ask(t, second, getUser, 5, policy.SourceRemote, nil)
		if took := elapsed(func() { _ = second.Close() }); took != 0 { // before the gathered write is due
			t.Errorf("Close took %s", took)
		}

		p.set(func(p *plane) { p.status = 500 })
		third := newRemote(t, p, o)
		ask(t, third, getUser, 5, policy.SourceLKG, policy.ErrProviderUnavailable)
		p.set(func(p *plane) { p.status = 404 })
		time.Sleep(time.Minute)
		_, _ = third.Policy(t.Context(), getUser)
		synctest.Wait()
		_ = third.Close()
		if strings.Contains(read(t, path), "GetUser") {
			t.Error("a deleted policy is kept on disk")
		}
	})
}

func TestR2DocumentSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.serve(documentURLPath, documentOf(4))
		path := filepath.Join(t.TempDir(), "policies.lkg")
		var told faults
		o := RemoteOptions{CachePath: path, OnError: told.add}
		first := newRemoteDocument(t, p, o)
		ask(t, first, getUser, 4, policy.SourceRemote, nil)
		_ = first.Close()

		p.set(func(p *plane) { p.latency = time.Second })
		second := newRemoteDocument(t, p, o)
		if second.Set() == nil {
			t.Fatal("the document on disk is not in force")
		}
		if took := elapsed(func() { ask(t, second, getUser, 4, policy.SourceLKG, policy.ErrProviderUnavailable) }); took != 0 {
			t.Errorf("a call waited %s although a policy is known", took)
		}
		time.Sleep(2 * time.Second)
		ask(t, second, getUser, 4, policy.SourceRemote, nil)
		if told.count() != 0 {
			t.Errorf("told of no fault at all: %s", &told)
		}
	})
}

func TestCorruptCacheIsRefusedAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.serve(getUserPath, policyOf(4))
		p.serve(documentURLPath, documentOf(4))
		dir := t.TempDir()
		kept, keptDocument := filepath.Join(dir, "keys"), filepath.Join(dir, "document")
		first := newRemote(t, p, RemoteOptions{CachePath: kept})
		ask(t, first, getUser, 4, policy.SourceRemote, nil)
		_ = first.Close()
		document := newRemoteDocument(t, p, RemoteOptions{CachePath: keptDocument})
		ask(t, document, getUser, 4, policy.SourceRemote, nil)
		_ = document.Close()
		p.set(func(p *plane) { p.status = 500 })

		good, goodDocument := read(t, kept), read(t, keptDocument)
		for name, spoil := range map[string]func(string) string{
			"one digit":     func(s string) string { return strings.Replace(s, `: 4}`, `: 5}`, 1) },
			"one byte less": func(s string) string { return s[:len(s)-1] },
			"empty":         func(string) string { return "" },
			"no header":     func(s string) string { _, rest, _ := strings.Cut(s, "\n"); return rest },
			"one escaped":   func(s string) string { return strings.Replace(s, `max_attempts`, `max_attempt5`, 1) },
		} {
			if name == "one digit" && !strings.Contains(goodDocument, ": 4}") {
				t.Fatal("nothing to spoil")
			}
			var told faults
			write(t, keptDocument, spoil(goodDocument))
			d := newRemoteDocument(t, p, RemoteOptions{CachePath: keptDocument, OnError: told.add})
			ask(t, d, getUser, 0, "", policy.ErrProviderUnavailable)
			synctest.Wait()
			if told.count() != 2 || !strings.Contains(told.String(), keptDocument) { // the cache and the outage
				t.Errorf("%s: told %s", name, &told)
			}
			_ = d.Close()
			if name == "one digit" {
				continue
			}
			told = faults{}
			write(t, kept, spoil(good))
			r := newRemote(t, p, RemoteOptions{CachePath: kept, OnError: told.add})
			ask(t, r, getUser, 0, "", policy.ErrProviderUnavailable)
			synctest.Wait()
			if told.count() != 2 || !strings.Contains(told.String(), kept) {
				t.Errorf("%s: told %s", name, &told)
			}
			_ = r.Close()
		}
	})
}

func TestCacheOfAnotherSourceIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.lkg")
	mine, other := newCache(path, "https://a"), newCache(path, "https://b")
	if bodies, err := mine.load(); err != nil || bodies != nil {
		t.Fatalf("no file yet: %v, %v", bodies, err)
	}
	if err := mine.save(map[string]string{"/x": "{}"}); err != nil {
		t.Fatal(err)
	}
	if bodies, err := mine.load(); err != nil || bodies["/x"] != "{}" {
		t.Errorf("%v, %v", bodies, err)
	}
	if bodies, err := other.load(); err == nil || bodies != nil {
		t.Errorf("%v, %v", bodies, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestCacheThatCannotBeWrittenIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.serve(documentURLPath, documentOf(4))
		inTheWay := filepath.Join(t.TempDir(), "file")
		write(t, inTheWay, "")
		var told faults
		r := newRemoteDocument(t, p, RemoteOptions{CachePath: filepath.Join(inTheWay, "x"), OnError: told.add})
		for attempts := 4; attempts < 8; attempts++ {
			p.serve(documentURLPath, documentOf(attempts))
			_ = r.Reload(t.Context())
			ask(t, r, getUser, attempts, policy.SourceRemote, nil)
		}
		if n := told.count(); n != 2 && n != 1 { // reading may fail too, in other words
			t.Errorf("told %d times: %s", n, &told)
		}
		contains(t, told.String(), "cache", inTheWay)
	})
}

func TestP2CacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		path := filepath.Join(t.TempDir(), "policies.lkg")
		o := RemoteOptions{CachePath: path, MaxKeys: 3}
		for run := range 3 {
			r := newRemote(t, p, o)
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				name += string(rune('0' + run))
				p.serve("/api/policies/"+name, policyOf(4))
				ask(t, r, policy.Key{Name: name}, 4, policy.SourceRemote, nil)
				time.Sleep(time.Second)
			}
			_ = r.Close()
			bodies, err := newCache(path, "https://plane.example/api").load()
			if err != nil || len(bodies) > 3 || bodies["/policies/e"+string(rune('0'+run))] == "" {
				t.Fatalf("run %d: %v, %v", run, bodies, err)
			}
		}
	})
}

func TestCacheIsWrittenOnlyForNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		path := filepath.Join(t.TempDir(), "policies.lkg")
		r := newRemote(t, p, RemoteOptions{CachePath: path})
		ask(t, r, getUser, 0, "", policy.ErrPolicyNotFound)
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("a file that keeps nothing was written: %v", err)
		}
	})
}

func TestP8CachedPolicyMustFitTheLimitsOfToday(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		path := filepath.Join(t.TempDir(), "policies.lkg")
		if err := newCache(path, "https://plane.example/api").save(map[string]string{"/policies/user-service/GetUser": `{"retired":1}`}); err != nil {
			t.Fatal(err)
		}
		p.set(func(p *plane) { p.status = 500 })
		var told faults
		r := newRemote(t, p, RemoteOptions{CachePath: path, OnError: told.add})
		ask(t, r, getUser, 0, "", policy.ErrProviderUnavailable)
		contains(t, told.String(), "user-service.GetUser", "retired")
	})
}
