package policyimport

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// istioConditions are the conditions of a route that says nothing of retries.
const istioConditions = "connect-failure,refused-stream,unavailable,cancelled"

// Istio converts the VirtualServices of Kubernetes manifests (networking.istio.io/v1): the timeout and the retries of their HTTP
// routes. The key of a route is its name, or else the host of its first destination. Manifests of other kinds are left out.
func Istio(manifests []byte) (Converted, error) {
	const what = "istio manifests"
	r := newReader()
	list := r.manifests(manifests)
	c := newConverted()
	for _, m := range list {
		if m.kind != "VirtualService" {
			m.leaveOut()
			continue
		}
		for _, route := range m.spec.objects("http") {
			r.istioRoute(route, &c)
		}
		m.spec.rest("hosts", "gateways", "tls", "tcp", "exportTo")
	}
	return c.finish(r, what, "no VirtualService with an HTTP route to a destination was found")
}

func (r *reader) istioRoute(o object, c *Converted) {
	for _, action := range []string{"redirect", "directResponse", "delegate"} {
		spelling, _ := o.spelling(action)
		if o.fields[spelling] != nil && o.fields["route"] == nil {
			r.lost(o.path, "is left out: it calls nothing itself, as it has %s and no route", spelling)
			return
		}
	}
	name := o.text("name")
	for i, to := range o.objects("route") {
		destination, _ := to.object("destination")
		if host := destination.text("host"); name == "" && i == 0 {
			name = host
		}
		destination.rest("subset", "port")
		to.rest("weight", "headers")
	}
	if name == "" {
		name = "istio"
		r.remark(o.path, "has neither a name nor a destination; its key is %s", name)
	}
	p := policy.Policy{Retry: policy.Retry{MaxAttempts: 3, Jitter: policy.JitterFull, BackoffMultiplier: 2, InitialBackoff: 25 * time.Millisecond}}
	retry := &p.Retry
	retry.OverallTimeout, _ = o.span("timeout") // 0 is none
	fit(r, o.at("timeout"), &retry.OverallTimeout, positive)
	if retries, ok := o.object("retries"); ok {
		r.istioRetries(retries, retry)
	} else {
		r.remark(o.at("retries"), "are not given; Istio's default of 2 retries is written out")
		r.retryOn(o.at("retries"), strings.Split(istioConditions, ","), nil, retry)
	}
	retry.MaxBackoff = 10 * retry.InitialBackoff
	fit(r, o.at("retries.backoff"), &retry.MaxBackoff, policy.CallLimits().Cap)
	o.rest("match", "redirect", "directResponse", "delegate", "rewrite", "fault", "mirror", "mirrors", "mirrorPercent", "mirrorPercentage", "corsPolicy", "headers")
	c.add(r, name, o.path, p)
}

func (r *reader) istioRetries(o object, to *policy.Retry) {
	retries, path, given := o.count("attempts") // of retries, whatever its name says
	to.MaxAttempts = r.attempts(retries, path)
	if !given {
		r.remark(path, "is not given, which Istio reads as 0: one attempt is made")
	}
	to.TimeoutPerAttempt, _ = o.span("perTryTimeout")
	fit(r, o.at("perTryTimeout"), &to.TimeoutPerAttempt, positive)
	if backoff, ok := o.span("backoff"); ok && backoff > 0 {
		to.InitialBackoff = backoff
		fit(r, o.at("backoff"), &to.InitialBackoff, policy.CallLimits().Backoff)
	}
	path = o.at("retryOn")
	var words []string
	var statuses []policy.Class
	for word := range strings.SplitSeq(cmp.Or(o.text("retryOn"), istioConditions), ",") {
		word = strings.TrimSpace(word)
		if status, err := strconv.Atoi(word); err == nil {
			class := policy.HTTPClass(status)
			switch {
			case class == "":
				r.lost(path, "%q is not the status of an error and is left out", word)
				continue
			case isBusinessOutcome(status):
				r.approximate(path, "%s %s", class, notRepeated)
			}
			statuses = append(statuses, class)
			continue
		}
		words = append(words, word)
	}
	if len(statuses) > 0 && !slices.Contains(words, "retriable-status-codes") {
		words = append(words, "retriable-status-codes")
	}
	if to.MaxAttempts > 1 {
		r.retryOn(path, words, statuses, to)
	}
	o.rest("retryRemoteLocalities", "retryIgnorePreviousHosts")
}

// manifest is a Kubernetes resource.
type manifest struct {
	object

	kind, name string
	spec       object
}

// manifests reads Kubernetes resources: several documents, or the items of a list. What cannot be read is a fault.
func (r *reader) manifests(data []byte) (list []manifest) {
	roots, err := r.loadAll(data)
	if err != nil {
		r.fault("", "%v", err)
	}
	for len(roots) > 0 {
		o := roots[0]
		roots = roots[1:]
		kind, _ := o.fields["kind"].(string)
		if strings.HasSuffix(kind, "List") {
			roots = append(o.objects("items"), roots...)
			continue
		}
		if kind == "" {
			r.fault(o.at("kind"), "is required: a manifest names what it declares")
		}
		m := manifest{object: o, kind: kind}
		metadata, _ := o.fields["metadata"].(map[string]any)
		m.name, _ = metadata["name"].(string)
		m.spec, _ = o.object("spec")
		list = append(list, m)
	}
	return list
}

// leaveOut reports a resource that has nothing to convert.
func (m manifest) leaveOut() {
	m.r.lost(cmp.Or(m.path, m.kind), "%s %q has no equivalent and is left out", m.kind, m.name)
}
