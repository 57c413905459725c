package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// flowGraph draws a flow: its jobs or, where they are too many to be seen, their types in each layer or the layers alone. nodes are all
// jobs of the flow, or none of a flow that is too large to be read.
func flowGraph(u *UI, s *api.FlowStatus, nodes []api.FlowNode) (g graph, grouped string) {
	edges := 0
	for i := range nodes {
		edges += len(nodes[i].Needs)
	}
	boxes, lines := []box(nil), [][2]int(nil)
	if len(nodes) > 0 && len(nodes) <= maxBoxes && edges <= maxLines {
		boxes, lines = jobBoxes(u, nodes, "")
	} else if len(nodes) > 0 {
		grouped = "the jobs of a type in a layer"
		boxes, lines = groupBoxes(u, s, nodes)
	}
	if len(boxes) == 0 || len(boxes) > maxBoxes || len(lines) > maxLines {
		grouped = "the jobs of a layer"
		if len(s.Bands) > 0 && s.Bands[0].To > s.Bands[0].From {
			grouped = "the jobs of some layers"
		}
		boxes, lines = bandBoxes(u, s)
	}
	g = drawGraph(boxes, lines)
	g.Name = "Graph of the flow"
	g.Text = plural(s.Jobs, "job", "jobs") + " in " + plural(s.Layers, "layer", "layers") + ", each to the right of what it needs"
	return g, grouped
}

// jobBoxes makes a box of each job, and a line from each need. current is the ID of the job that the page is about.
func jobBoxes(u *UI, nodes []api.FlowNode, current string) (boxes []box, lines [][2]int) {
	at := make(map[int32]int, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		at[int32(n.Position)] = i
		boxes = append(boxes, box{
			Title: n.Node, Note: string(n.State) + " · " + n.Type, Full: n.Node + ", " + n.Type + ", " + string(n.State), Href: u.href("jobs/" + n.JobID),
			State: string(n.State), Current: n.JobID == current, layer: n.Layer,
		})
	}
	for i := range nodes {
		for _, need := range nodes[i].Needs {
			if from, known := at[need]; known && nodes[from].Layer < nodes[i].Layer {
				lines = append(lines, [2]int{from, i})
			}
		}
	}
	return boxes, lines
}

// group is the jobs of a type in a band of layers.
type group struct {
	band    int
	jobType string
}

func groupBoxes(u *UI, s *api.FlowStatus, nodes []api.FlowNode) (boxes []box, lines [][2]int) {
	width := s.Info()
	of := func(n *api.FlowNode) group { return group{(n.Layer - 1) / width.BandWidth(), n.Type} }
	states := map[group]map[job.State]int{}
	groups := make(map[int32]group, len(nodes))
	for i := range nodes {
		g := of(&nodes[i])
		groups[int32(nodes[i].Position)] = g
		if states[g] == nil {
			states[g] = map[job.State]int{}
		}
		states[g][nodes[i].State]++
	}
	index := map[group]int{}
	for _, g := range slices.SortedFunc(maps.Keys(states), func(a, b group) int {
		return cmp.Or(cmp.Compare(a.band, b.band), cmp.Compare(a.jobType, b.jobType))
	}) {
		index[g] = len(boxes)
		total := 0
		for _, n := range states[g] {
			total += n
		}
		b := stateBox(states[g], number(total)+" × "+g.jobType)
		b.Href, b.layer = u.href("jobs", "filter", term(job.FieldFlow, s.ID)+" "+term(job.FieldType, g.jobType)), g.band
		boxes = append(boxes, b)
	}
	known := map[[2]int]bool{}
	for i := range nodes {
		for _, need := range nodes[i].Needs {
			from, kept := groups[need]
			line := [2]int{index[from], index[of(&nodes[i])]}
			if kept && from.band < of(&nodes[i]).band && !known[line] {
				known[line] = true
				lines = append(lines, line)
			}
		}
	}
	return boxes, lines
}

func bandBoxes(u *UI, s *api.FlowStatus) (boxes []box, lines [][2]int) {
	for i, band := range s.Bands {
		name := fmt.Sprintf("layer %d", band.From)
		if band.To > band.From {
			name = fmt.Sprintf("layers %d to %d", band.From, band.To)
		}
		b := stateBox(band.States, name)
		b.Href, b.layer = u.href("jobs", "filter", term(job.FieldFlow, s.ID)), i
		boxes = append(boxes, b)
		if i > 0 {
			lines = append(lines, [2]int{i - 1, i})
		}
	}
	return boxes, lines
}

// stateBox makes a box of jobs in several states.
func stateBox(states map[job.State]int, title string) box {
	total := 0
	var counts []barCount
	var words []string
	for _, state := range []job.State{job.Dead, job.Cancelled, job.Running, job.Ready, job.Scheduled, job.Waiting, job.Completed} {
		if n := states[state]; n > 0 {
			total += n
			counts = append(counts, barCount{string(state), n})
			words = append(words, number(n)+" "+string(state))
		}
	}
	b := box{Title: title, Note: strings.Join(words, ", "), State: "mixed"}
	if len(counts) == 1 {
		b.State = counts[0].name
	}
	const left, width = 7, boxWidth - 8 // within the outline
	bar, _ := newBar(total, 0, counts)
	for _, part := range bar {
		from, to := left+part.X*width/1000, left+(part.X+part.Width)*width/1000
		b.Bar = append(b.Bar, barPart{Name: part.Name, Value: part.Value, X: from, Width: max(to-from, 1)})
	}
	return b
}
