package rollout

import "math"

// measures compares the groups on every measure. The error probability is divided among them, so that the plan's confidence
// holds for all together.
func measures(plan Plan, base, candidate Counters) []Measure {
	t := plan.Thresholds
	list := []Measure{
		{Name: ReasonFailures, Threshold: t.FailureShare},
		{Name: ReasonExtraAttempts, Threshold: t.ExtraAttempts},
		{Name: ReasonLatency, Threshold: t.Latency},
		{Name: ReasonOpenings, Threshold: t.Openings},
	}
	alpha := (1 - plan.Confidence) / float64(len(list))
	if base.Calls > 0 && candidate.Calls > 0 {
		list[0].compareFailures(alpha, base, candidate)
		list[1].compareAttempts(alpha, base, candidate)
		list[3].compareOpenings(alpha, base, candidate)
	}
	list[2].compareLatency(alpha, base, candidate)
	for i := range list {
		if list[i].Finding == "" || !list[i].finite() {
			list[i] = Measure{Name: list[i].Name, Threshold: list[i].Threshold, Finding: Unknown}
		}
	}
	return list
}

func (m *Measure) finite() bool {
	sum := m.Base + m.Candidate + m.Difference + m.Low + m.High
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}

func (m *Measure) compareFailures(alpha float64, base, candidate Counters) {
	b := newGroup(base, base.Failures, base.Spread.Failures)
	c := newGroup(candidate, candidate.Failures, candidate.Spread.Failures)
	b.independent = bernoulli(b.mean, min(c.mean+m.Threshold, 1), m.Threshold)
	c.independent = bernoulli(c.mean, min(b.mean+m.Threshold, 1), m.Threshold)
	m.judgeAbsolute(alpha, b, c)
	m.Low, m.High = max(m.Low, -1), min(m.High, 1)
}

func (m *Measure) compareOpenings(alpha float64, base, candidate Counters) {
	b := newGroup(base, base.Openings, base.Spread.Openings)
	c := newGroup(candidate, candidate.Openings, candidate.Spread.Openings)
	b.independent, c.independent = max(b.mean, c.mean+m.Threshold), max(c.mean, b.mean+m.Threshold)
	m.judgeAbsolute(alpha, b, c)
}

// compareAttempts judges the logarithm of attempts per call.
func (m *Measure) compareAttempts(alpha float64, base, candidate Counters) {
	b := newGroup(base, base.ExtraAttempts, base.Spread.ExtraAttempts)
	c := newGroup(candidate, candidate.ExtraAttempts, candidate.Spread.ExtraAttempts)
	b.independent = max(b.mean, (1+c.mean)*(1+m.Threshold)-1)
	c.independent = max(c.mean, (1+b.mean)*(1+m.Threshold)-1)
	m.Base, m.Candidate = b.mean, c.mean
	between := max(b.between, c.between)
	m.judgeRelative(alpha, contrast{
		difference: math.Log1p(c.mean) - math.Log1p(b.mean),
		variance:   b.variance(between)/(1+b.mean)/(1+b.mean) + c.variance(between)/(1+c.mean)/(1+c.mean),
		freedom:    freedom(b.clients, c.clients),
	})
}

// compareLatency judges the mean logarithm of the clients' 95th percentiles. The larger of the groups' variances counts for
// both, so that a group with one client can be compared.
func (m *Measure) compareLatency(alpha float64, base, candidate Counters) {
	b, c := base.Spread.Latency, candidate.Spread.Latency
	if b.Clients < 1 || c.Clients < 1 {
		return
	}
	m.Base, m.Candidate = math.Exp(b.mean()), math.Exp(c.mean())
	perClient := max(b.variance(), c.variance(), sketchError*sketchError)
	m.judgeRelative(alpha, contrast{
		difference: c.mean() - b.mean(),
		variance:   perClient/float64(b.Clients) + perClient/float64(c.Clients),
		freedom:    freedom(b.Clients, c.Clients),
	})
}

// judgeAbsolute judges the increase of a counter per call.
func (m *Measure) judgeAbsolute(alpha float64, b, c group) {
	m.Base, m.Candidate = b.mean, c.mean
	between := max(b.between, c.between)
	m.judge(alpha, contrast{
		difference: c.mean - b.mean,
		variance:   b.variance(between) + c.variance(between),
		freedom:    freedom(b.clients, c.clients),
		threshold:  m.Threshold,
		urgent:     m.Name == ReasonFailures,
	})
}

func (m *Measure) judge(alpha float64, c contrast) {
	m.Difference = c.difference
	m.Low, m.High = c.interval(alpha)
	m.Finding = c.finding(m.Low, m.High)
}

// judgeRelative judges a difference of logarithms and states it as a relative increase.
func (m *Measure) judgeRelative(alpha float64, c contrast) {
	c.threshold = math.Log1p(m.Threshold)
	m.judge(alpha, c)
	m.Difference, m.Low, m.High = increase(m.Difference), increase(m.Low), increase(m.High)
}

// increase turns a difference of logarithms into a relative increase, which stays finite.
func increase(logarithm float64) float64 { return math.Expm1(min(logarithm, 700)) }

func freedom(base, candidate int64) float64 { return float64(base) + float64(candidate) - 2 }

func (l Logs) mean() float64 { return l.Sum / float64(l.Clients) }

func (l Logs) variance() float64 {
	if l.Clients < 2 {
		return 0
	}
	k := float64(l.Clients)
	return max(l.Squared-l.Sum*l.Sum/k, 0) / (k - 1)
}
