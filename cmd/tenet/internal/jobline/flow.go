package jobline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tenetdev/tenet/job"
)

// maxOfFlows bounds the jobs of all flows of an import, which are held until its end.
const maxOfFlows = 10 * job.MaxFlowJobs

// flowLines are the lines of a flow.
type flowLines struct {
	job.Flow
	lines  []int // of the jobs
	faulty bool  // a line was rejected
}

// flowLine takes a line of a flow, which is stored when the whole flow was read.
func (i *importer) flowLine(j Job, err error) {
	f := i.flows[j.Flow]
	if f == nil {
		f = &flowLines{Flow: job.Flow{ID: j.Flow}}
		i.flows[j.Flow] = f
	}
	if err == nil && (len(f.Jobs) == job.MaxFlowJobs || i.ofFlows == maxOfFlows) {
		err = fmt.Errorf("flow: more than %d jobs in it, or than %d in all flows; divide the file", job.MaxFlowJobs, maxOfFlows)
	}
	if err != nil {
		f.faulty = true
		i.reject(err)
		return
	}
	f.Add(j.FlowJob)
	f.lines = append(f.lines, i.number)
	i.ofFlows++
}

// enqueueFlows stores the flows, each in one transaction.
func (i *importer) enqueueFlows(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(i.flows)) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := i.enqueueFlow(ctx, i.flows[id]); err != nil {
			return fmt.Errorf("flow %q: %w", id, err)
		}
	}
	slices.SortStableFunc(i.result.Rejected, func(a, b Rejected) int { return cmp.Compare(a.Line, b.Line) })
	return nil
}

func (i *importer) enqueueFlow(ctx context.Context, f *flowLines) error {
	if len(f.lines) == 0 {
		return nil
	}
	if f.faulty {
		i.rejectFlow(f, f.lines[0], errors.New("another line of the flow was rejected"))
		return nil
	}
	if _, err := f.Inserts(); err != nil {
		i.rejectFlow(f, f.at(err), err)
		return nil
	}
	if i.unplaced > 0 {
		i.rejectFlow(f, f.lines[0], fmt.Errorf("line %d was rejected and may belong to the flow", i.unplaced))
		return nil
	}
	receipt := job.FlowReceipt{}
	if !i.options.DryRun {
		var err error
		if receipt, err = i.client.EnqueueFlow(ctx, &f.Flow); err != nil {
			return err
		}
	}
	if receipt.Existed {
		i.result.Existing += len(f.Jobs)
	} else {
		i.result.Imported += len(f.Jobs)
	}
	for n := range f.Jobs {
		if i.options.Enqueued != nil && !i.options.DryRun {
			i.options.Enqueued(f.Jobs[n].Request)
		}
	}
	return nil
}

// rejectFlow reports a flow of which nothing is stored, at one of its lines.
func (i *importer) rejectFlow(f *flowLines, line int, err error) {
	nothing := fmt.Sprintf("none of its %d jobs was stored", len(f.Jobs))
	if len(f.Jobs) == 1 {
		nothing = "its job was not stored"
	}
	i.result.Rejected = append(i.result.Rejected, Rejected{Line: line, Error: fmt.Sprintf("flow %q: %s: %v", f.ID, nothing, err)})
}

// at is the line that an error is about: the last one of the node that it names, or the first of the flow.
func (f *flowLines) at(err error) int {
	fault, ok := errors.AsType[*job.FlowError](err)
	for n := range slices.Backward(f.Jobs) {
		if ok && f.Jobs[n].Node == fault.Node {
			return f.lines[n]
		}
	}
	return f.lines[0]
}
