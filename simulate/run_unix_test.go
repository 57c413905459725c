//go:build unix

package simulate_test

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/tenetdev/tenet/internal/debian"
	"github.com/tenetdev/tenet/simulate"
)

func TestT2SameBytesOn32Bits(t *testing.T) {
	if testing.Short() || runtime.GOARCH != "amd64" || runtime.GOOS != "linux" {
		t.Skip("builds and runs TestT2SameSeedSameBytesOnEveryPlatform for 386, on linux/amd64 only")
	}
	test := func(flags ...string) ([]byte, error) {
		cmd := exec.Command("go", slices.Concat([]string{"test", "-count=1", "-run=^TestT2SameSeedSameBytesOnEveryPlatform$"}, flags, []string{"."})...)
		cmd.Env = append(os.Environ(), "GOARCH=386", "CGO_ENABLED=0", "GOFLAGS=", "GODEBUG=asyncpreemptoff=1") // the emulator loses signals
		return cmd.CombinedOutput()
	}
	out, err := test()
	if err != nil && bytes.Contains(out, []byte("exec format error")) { // this kernel runs no programs for 386
		emulator, missing := debian.Find("qemu-user")
		if missing != nil {
			t.Fatal(missing)
		}
		out, err = test("-exec", emulator)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// BenchmarkAttempts counts CPU time, not elapsed time, so that other work on the machine does not matter.
func BenchmarkAttempts(b *testing.B) {
	s := parse(b, `
version: 1
duration: 100s
policies: {db.Read: {retry: {max_attempts: 3, backoff: 10ms, timeout: 500ms}}}
services: {db: {concurrency: 1000, latency: {distribution: exponential, mean: 20ms}, errors: 0.1}}
clients: {web: {service: db, policy: db.Read, count: 10, rate: 1000}}
`)
	attempts, began := int64(0), cpu(b)
	for b.Loop() {
		r, err := s.Run(b.Context(), simulate.Options{})
		if err != nil {
			b.Fatal(err)
		}
		attempts += r.Clients[0].Attempts
	}
	b.ReportMetric(float64(attempts)/(cpu(b)-began), "attempts/cpu-s")
}

// cpu returns the seconds of CPU time that the process has used.
func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
