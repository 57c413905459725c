package rollout

import "math"

// contrast is an estimated difference between the groups on the scale on which it is judged.
type contrast struct {
	difference float64
	variance   float64
	freedom    float64 // degrees of freedom of the variance
	threshold  float64
	// urgent limits how much the lower bound widens for few clients.
	urgent bool
}

// interval returns bounds that hold at every look, with error probability alpha for all looks together.
//
// The estimate times its information 1/variance behaves like a Brownian motion that runs in the information, with a drift of
// the true difference. Mixing the drift over a normal distribution with the threshold as its standard deviation gives the
// boundary of Robbins; the threshold is the difference that the plan cares about, and there the boundary is nearly tightest.
//
// For few clients, the bounds widen as Student's t is wider than the normal distribution. The lower bound of an urgent
// contrast widens at most twofold: otherwise a group of two or three clients could never be reverted, even if all its calls
// failed.
func (c contrast) interval(alpha float64) (low, high float64) {
	ratio := c.threshold * c.threshold / c.variance
	normal := math.Sqrt((1 + 1/ratio) * (math.Log1p(ratio) - 2*math.Log(alpha)))
	wide := student(normal, c.freedom)
	deviation := math.Sqrt(c.variance)
	down := wide
	if c.urgent {
		down = min(wide, 2*normal)
	}
	return c.difference - down*deviation, c.difference + wide*deviation
}

func (c contrast) finding(low, high float64) Finding {
	switch {
	case low > c.threshold:
		return Worse
	case high < c.threshold:
		return Harmless
	}
	return Undecided
}

// student returns the quantile of Student's t that belongs to the quantile z of the normal distribution, by the approximation
// of Wallace (1959), and at most widest.
func student(z, freedom float64) float64 {
	if freedom <= 0 {
		return widest
	}
	scaled := z * (8*freedom + 3) / (8*freedom + 1)
	return min(math.Sqrt(freedom*math.Expm1(scaled*scaled/freedom)), widest)
}

// widest keeps bounds finite where nothing is known about the variance.
const widest = 1e6

// group is one side of the comparison of a counter.
type group struct {
	clients     int64
	calls, mean float64
	// independent is the variance of one call if calls were independent.
	independent float64
	// unevenness is 1/k for k clients with equally many calls, and larger for unequal ones.
	unevenness float64
	// between is the variance of the mean over clients, for an unevenness of 1.
	between float64
}

func newGroup(c Counters, count int64, m Moments) group {
	g := group{clients: c.Spread.Clients, calls: float64(c.Calls), mean: float64(count) / float64(c.Calls)}
	k := float64(c.Spread.Clients)
	g.unevenness = c.Spread.CallsSquared / (g.calls * g.calls)
	if k >= 2 && c.Spread.CallsSquared > 0 {
		residuals := m.Squared - 2*g.mean*m.TimesCalls + g.mean*g.mean*c.Spread.CallsSquared
		g.between = max(residuals, 0) * k / (k - 1) / c.Spread.CallsSquared
	}
	return g
}

// variance returns the variance of the group's mean: as clients differ, and at least that of independent calls.
func (g group) variance(between float64) float64 {
	return max(between*g.unevenness, g.independent/g.calls)
}

// bernoulli returns the largest variance of a yes or no with a probability between a and b. The margin keeps it above 0.
func bernoulli(a, b, margin float64) float64 {
	p := min(max(0.5, min(a, b)), max(a, b), 1-min(margin, 0.5))
	return p * (1 - p)
}
