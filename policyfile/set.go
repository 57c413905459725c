package policyfile

import (
	"fmt"

	"github.com/tenetdev/tenet/policy"
)

// config compiles what was drafted. It must be called only for a document without faults.
func (c *compiler) config() (policy.SetConfig, error) {
	config := c.parts
	config.Source = c.source
	config.CallLimits = c.limits[policy.SurfaceCall]
	config.Policies = make(map[policy.Key]*policy.Policy, len(c.drafts))
	for _, p := range c.drafts {
		compiled, err := c.compiled(p, p.Key.Surface(), c.source)
		if err != nil {
			return policy.SetConfig{}, err
		}
		config.Policies[p.Key] = compiled
	}
	for surface, into := range map[policy.Surface]**policy.Policy{
		policy.SurfaceCall: &config.Calls, policy.SurfaceJob: &config.Jobs, policy.SurfaceStep: &config.Steps,
	} {
		source := c.source
		if c.defaults(string(surface)+"s").values == nil {
			source = policy.SourceDefault
		}
		compiled, err := c.compiled(c.bases[surface], surface, source)
		if err != nil {
			return policy.SetConfig{}, err
		}
		*into = compiled
	}
	return config, c.finishPipelines(config)
}

// compiled compiles p. The catalog's row lies below the defaults already, so that it must not fill what the document
// leaves out on purpose; the category is put back afterwards.
func (c *compiler) compiled(p policy.Policy, s policy.Surface, source policy.Source) (*policy.Policy, error) {
	category := p.Category
	p.Category = ""
	compiled, err := policy.Compile(p, c.limits[s], source)
	if err != nil || category == "" {
		return compiled, err
	}
	compiled.Category = category
	compiled.Meta.Revision, err = compiled.Revise()
	return compiled, err
}

// finishPipelines gives consumers and producers the retries of their compiled steps, and their other defaults.
func (c *compiler) finishPipelines(config policy.SetConfig) (err error) {
	limits := c.limits[policy.SurfaceStep]
	for name, consumer := range config.Consumers {
		retry := func(step string) policy.Retry { return config.Policies[policy.ConsumerKey(name, step)].Clone().Retry }
		s := &consumer.Steps
		s.Fetch.Retry, s.Process.Retry, s.Success.Retry, s.Exception.Retry = retry("fetch"), retry("process"), retry("success"), retry("exception")
		if config.Consumers[name], err = consumer.Normalize(limits); err != nil {
			return fmt.Errorf("consumer %s: %w", name, err)
		}
	}
	for name, producer := range config.Producers {
		retry := func(step string) policy.Retry { return config.Policies[policy.ProducerKey(name, step)].Clone().Retry }
		s := &producer.Steps
		s.Produce.Retry, s.Success.Retry, s.Exception.Retry = retry("produce"), retry("success"), retry("exception")
		if config.Producers[name], err = producer.Normalize(limits); err != nil {
			return fmt.Errorf("producer %s: %w", name, err)
		}
	}
	return nil
}
