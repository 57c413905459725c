package rollout

// AddReport adds what one client counted since its report before. client is what that client has counted since the step
// began; it grows by delta. c, which may be a part of the group that a store adds to others, gets the difference, so that the
// sum over all reports is what AddClient would have made of the clients. The Spread of delta is ignored.
func (c *Counters) AddReport(client *Counters, delta Counters) {
	delta.Spread = Spread{}
	before := client.asSpread()
	client.Add(delta)
	c.Add(delta)
	c.Spread.add(client.asSpread())
	c.Spread.add(before.negative())
}

func (s Spread) negative() Spread {
	return Spread{
		Clients:       -s.Clients,
		CallsSquared:  -s.CallsSquared,
		Failures:      s.Failures.negative(),
		ExtraAttempts: s.ExtraAttempts.negative(),
		Openings:      s.Openings.negative(),
		Latency:       Logs{Clients: -s.Latency.Clients, Sum: -s.Latency.Sum, Squared: -s.Latency.Squared},
	}
}

func (m Moments) negative() Moments { return Moments{-m.Squared, -m.TimesCalls} }
