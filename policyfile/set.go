package policyfile

import (
	"fmt"

	"github.com/tenetdev/tenet/policy"
)

// config compiles the drafts. It must be called only for a document without faults.
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

// finishPipelines gives consumers and producers the compiled retries of their steps, and their other defaults. Categories are
// put back afterwards, as in compiled.
func (c *compiler) finishPipelines(config policy.SetConfig) (err error) {
	limits := c.limits[policy.SurfaceStep]
	for name, consumer := range config.Consumers {
		step := func(stepName string) *policy.Policy { return config.Policies[policy.ConsumerKey(name, stepName)] }
		category, s := consumer.Category, &consumer.Steps
		consumer.Category = ""
		s.Fetch = policy.FetchStep{Retry: step("fetch").Clone().Retry, Extra: s.Fetch.Extra}
		s.Process, s.Success, s.Exception = stepOf(step("process")), stepOf(step("success")), stepOf(step("exception"))
		if consumer, err = consumer.Normalize(limits); err != nil {
			return fmt.Errorf("consumer %s: %w", name, err)
		}
		consumer.Category, s = category, &consumer.Steps
		s.Fetch.Category, s.Process.Category = step("fetch").Category, step("process").Category
		s.Success.Category, s.Exception.Category = step("success").Category, step("exception").Category
		config.Consumers[name] = consumer
	}
	for name, producer := range config.Producers {
		step := func(stepName string) *policy.Policy { return config.Policies[policy.ProducerKey(name, stepName)] }
		category, s := producer.Category, &producer.Steps
		producer.Category = ""
		s.Produce, s.Success, s.Exception = stepOf(step("produce")), stepOf(step("success")), stepOf(step("exception"))
		if producer, err = producer.Normalize(limits); err != nil {
			return fmt.Errorf("producer %s: %w", name, err)
		}
		producer.Category, s = category, &producer.Steps
		s.Produce.Category, s.Success.Category, s.Exception.Category = step("produce").Category, step("success").Category, step("exception").Category
		config.Producers[name] = producer
	}
	return nil
}

func stepOf(p *policy.Policy) policy.Step { return policy.Step{Retry: p.Clone().Retry} }
