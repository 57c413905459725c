package simulate

import (
	"math"
	"time"
)

// stream is a source of random numbers: SplitMix64 (Steele, Lea and Flood, 2014). Its functions and those below use integers and
// the functions of package math that are written in Go on every platform, so that all platforms whose compiler does not fuse
// floating-point operations draw the same numbers.
type stream uint64

// newStream returns the stream of a name, which is independent of the streams of other names.
func newStream(seed uint64, name string) stream {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	s := stream(seed)
	s = stream(s.next() ^ h)
	return stream(s.next())
}

func (s *stream) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// unit returns a number in [0, 1).
func (s *stream) unit() float64 { return float64(s.next()>>11) / (1 << 53) }

// chance returns true with probability p.
func (s *stream) chance(p float64) bool { return p > 0 && s.unit() < p }

// below returns a number in [0, n).
func (s *stream) below(n int) int { return int(s.unit() * float64(n)) }

// exponential returns an exponentially distributed number of mean 1.
func (s *stream) exponential() float64 { return -math.Log1p(-s.unit()) }

// normal returns a normally distributed number of mean 0 and deviation 1 (Box and Muller, 1958).
func (s *stream) normal() float64 {
	radius := math.Sqrt(2 * s.exponential())
	return radius * math.Cos(2*math.Pi*s.unit())
}

// draw returns a duration of the distribution, at least 0.
func (l *Latency) draw(s *stream) time.Duration {
	mean := float64(l.Mean)
	var d float64
	switch l.Distribution {
	case Exponential:
		d = mean * s.exponential()
	case Normal:
		d = math.Abs(mean + float64(l.Deviation)*s.normal())
	case Uniform:
		d = mean + (2*s.unit()-1)*float64(l.Deviation)
	case LogNormal:
		if mean > 0 {
			ratio := float64(l.Deviation) / mean
			variance := math.Log1p(ratio * ratio)
			d = mean * (1 + math.Expm1(math.Sqrt(variance)*s.normal()-variance/2))
		}
	case Pareto:
		shape := max(l.Shape, 1.01)
		d = mean * (shape - 1) / shape * (1 + math.Expm1(s.exponential()/shape))
	default:
		d = mean
	}
	return nanoseconds(d)
}

// nanoseconds returns a number of nanoseconds as a duration of at least 0 and less than forever, so that the world can add it to its
// time.
func nanoseconds(ns float64) time.Duration {
	if !(ns > 0) {
		return 0
	}
	return time.Duration(min(ns, float64(forever/2)))
}
