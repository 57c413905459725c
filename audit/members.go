package audit

import "github.com/tenetdev/tenet/classify"

// The functions below declare the stored form of an event: each member once, under its name, in the order of canonical JSON
// (RFC 8785). The encoder, both readers and the packer go through these lists. A name is written as it stands in a line behind
// other members. [Event] says what the members mean; docs/audit-schema.md and the JSON schema are made from both.
//
// Replay and statistics read and spill numbers, flags, symbols, facts and groups only. A symbol is a string with few
// different values in a log; any other string is a text. Members whose kind begins with "must" are written even if they are
// empty.

func (e *Event) members(c *codec) {
	symbol(c, `,"action":`, &e.Action)
	text(c, `,"actor":`, &e.Actor)
	integer(c, `,"attempt_number":`, &e.Attempt)
	c.texts(`,"attributes":`, &e.Attributes)
	c.optionalFlag(`,"budget_allowed":`, &e.BudgetAllowed)
	text(c, `,"budget_reason":`, &e.BudgetReason)
	text(c, `,"chain_id":`, &e.ChainID)
	text(c, `,"circuit_state":`, &e.Circuit)
	symbol(c, `,"core_version":`, &e.CoreVersion)
	text(c, `,"correlation_id":`, &e.CorrelationID)
	c.unsigned(`,"count":`, &e.Count)
	integer(c, `,"deciding":`, &e.Deciding)
	symbol(c, `,"decision":`, &e.Decision)
	c.flag(`,"delay_external":`, &e.External)
	c.nanos(`,"delay_ns":`, &e.DelayNS)
	c.float(`,"delay_seconds":`, &e.Delay)
	c.flag(`,"denied":`, &e.Denied)
	text(c, `,"detail":`, &e.Detail)
	c.nanos(`,"elapsed_ns":`, &e.ElapsedNS)
	c.mustEventID(`,"event_id":`, &e.ID)
	mustString(c, `,"event_type":`, &e.Type)
	text(c, `,"exception_message":`, &e.ExceptionMessage)
	text(c, `,"exception_type":`, &e.ExceptionType)
	object(c, `,"facts":`, &e.Facts, (*Facts).members)
	integer(c, `,"fence":`, &e.Fence)
	text(c, `,"final_exception_message":`, &e.FinalExceptionMessage)
	text(c, `,"final_exception_type":`, &e.FinalExceptionType)
	text(c, `,"from":`, &e.From)
	c.integers(`,"group":`, &e.Group)
	c.hash(`,"hash":`, &e.Hash)
	if !c.brief {
		objects(c, `,"heads":`, &e.Heads, (*Head).members)
	}
	integer(c, `,"hedge_index":`, &e.HedgeIndex)
	text(c, `,"idempotency_key":`, &e.IdempotencyKey)
	symbol(c, `,"key":`, &e.Key)
	c.optionalNanos(`,"left_ns":`, &e.LeftNS)
	symbol(c, `,"left_reason":`, &e.LeftReason)
	c.unsigned(`,"lost":`, &e.Lost)
	symbol(c, `,"matched_rule":`, &e.MatchedRule)
	integer(c, `,"max_attempts":`, &e.MaxAttempts)
	text(c, `,"operation":`, &e.Operation)
	symbol(c, `,"outcome_category":`, &e.OutcomeCategory)
	symbol(c, `,"outcome_class":`, &e.OutcomeClass)
	list(c, `,"outcome_classes":`, &e.OutcomeClasses)
	symbol(c, `,"outcome_kind":`, &e.OutcomeKind)
	symbol(c, `,"outcome_reason":`, &e.OutcomeReason)
	symbol(c, `,"parent":`, &e.Parent)
	c.document(`,"policy":`, &e.Policy)
	text(c, `,"policy_id":`, &e.PolicyID)
	symbol(c, `,"policy_revision":`, &e.PolicyRevision)
	c.prevHash(`,"prev_hash":`, &e.PrevHash)
	c.nanos(`,"pushback_ns":`, &e.PushbackNS)
	symbol(c, `,"reason":`, &e.Reason)
	symbol(c, `,"retry_category":`, &e.Category)
	integer(c, `,"retry_index":`, &e.RetryIndex)
	mustInteger(c, `,"schema_version":`, &e.SchemaVersion)
	c.quoted(`,"seed":`, &e.Seed)
	c.unsigned(`,"seq":`, &e.Seq)
	if !c.brief {
		object(c, `,"shadow":`, &e.Shadow, (*Shadow).members)
	}
	integer(c, `,"state_attempt":`, &e.StateNumber)
	integer(c, `,"state_max_attempts":`, &e.StateLimit)
	symbol(c, `,"surface":`, &e.Surface)
	text(c, `,"tenant_id":`, &e.TenantID)
	c.mustTime(`,"timestamp":`, &e.Time)
	symbol(c, `,"to":`, &e.To)
	c.nanos(`,"took_ns":`, &e.TookNS)
	integer(c, `,"total_attempts":`, &e.TotalAttempts)
	text(c, `,"trace_id":`, &e.TraceID)
	c.workID(`,"work_id":`, &e.WorkID)
	integer(c, `,"work_seq":`, &e.WorkSeq)
}

func (f *Facts) members(c *codec) {
	objects(c, `,"classes":`, &f.Classes, matchMembers)
	object(c, `,"classified":`, &f.Classified, (*Outcome).members)
	symbol(c, `,"ended":`, &f.Ended)
	c.flag(`,"failed":`, &f.Failed)
	symbol(c, `,"mark":`, &f.Mark)
	c.nanos(`,"pushback_ns":`, &f.PushbackNS)
	c.flag(`,"timed_out":`, &f.TimedOut)
}

func (s *Shadow) members(c *codec) {
	mustString(c, `,"decision":`, &s.Decision)
	c.nanos(`,"delay_ns":`, &s.DelayNS)
	text(c, `,"policy_revision":`, &s.PolicyRevision)
	text(c, `,"reason":`, &s.Reason)
}

func (o *Outcome) members(c *codec) {
	c.texts(`,"attributes":`, &o.Attributes)
	symbol(c, `,"category":`, &o.Category)
	symbol(c, `,"class":`, &o.Class)
	mustString(c, `,"kind":`, &o.Kind)
	c.nanos(`,"pushback_ns":`, &o.PushbackNS)
	symbol(c, `,"reason":`, &o.Reason)
}

func matchMembers(m *classify.Match, c *codec) {
	mustString(c, `,"class":`, &m.Class)
	symbol(c, `,"parent":`, &m.Parent)
}

func (h *Head) members(c *codec) {
	mustString(c, `,"chain_id":`, &h.ChainID)
	mustString(c, `,"hash":`, &h.Hash)
	c.mustUnsigned(`,"seq":`, &h.Seq)
}
