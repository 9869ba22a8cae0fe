package rebuild

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/rebuild/plan"
	"github.com/kamino-dev/kamino/internal/step"
)

// Result is the result of a run.
type Result struct {
	// Rebuilt are the rebuilt nodes, in the order of their return.
	Rebuilt []string
	// Failed are the failed nodes, each with its reason. Unrebuilt nodes have returned to service; other failed nodes
	// stay reserved.
	Failed map[string]string
	// Waiting is what delays the remaining nodes; empty if there are none.
	Waiting string
}

// Run makes passes until no old node is left or none can be reserved. notify receives each new message about a node once, as
// the end of a sentence. After an error, reserved nodes stay reserved until another run.
func (r *Replacement) Run(ctx context.Context, notify func(node, what string), wait func(context.Context, time.Duration) error) (Result, error) {
	t := reporter{notify: notify, last: map[string]plan.Step{}}
	result, moved := Result{}, time.Time{}
	err := step.Run(step.Limits{Pause: pollInterval}, func() (step.Pass[plan.Action, plan.Reason], error) {
		report, err := r.Pass(ctx)
		for _, s := range report.Steps {
			t.step(s)
			if s.Do == plan.Release {
				result.Rebuilt = append(result.Rebuilt, s.Node)
			}
		}
		t.alone(r.roster.choice.Alone)
		result.Failed, result.Waiting = r.refusals(), ""
		if r.roster.choice.Left > 0 {
			result.Waiting = r.roster.choice.Waiting
		}
		if now := r.Now(); err == nil && (len(report.Taken) > 0 || moved.IsZero()) {
			moved = now
		}
		return step.Pass[plan.Action, plan.Reason]{Decision: report.decision(), Done: err == nil && r.isDone(report, moved), After: report.After}, err
	}, func(pause time.Duration) error { return wait(ctx, pause) })
	return result, err
}

// decision is the step of a pass with one node; a wait if several nodes are in progress, or none.
func (r Report) decision() plan.Decision {
	if len(r.Steps) != 1 {
		return plan.Decision{Do: plan.Wait}
	}
	return r.Steps[0].Decision
}

// isDone reports whether nothing is in progress and nothing more can start. Nodes that are delayed from outside are
// awaited up to ReadyTimeout.
func (r *Replacement) isDone(report Report, moved time.Time) bool {
	if len(report.Taken) > 0 || report.Choice.Take != "" || r.roster.freed {
		return false
	}
	return report.Choice.Left == 0 || r.roster.lost(r.failed) || r.Now().Sub(moved) > r.ReadyTimeout
}

// refusals returns the failed nodes and the nodes left alone, each with its message.
func (r *Replacement) refusals() map[string]string {
	all := map[string]string{}
	for _, some := range []map[string]cloud.Refusal{r.roster.choice.Alone, r.failed} {
		for name, refusal := range some {
			all[name] = refusal.Message
		}
	}
	return all
}

// reporter reports each message about a node once.
type reporter struct {
	notify func(node, what string)
	last   map[string]plan.Step
}

// step reports a step. During a drain a smaller number of pods is no news.
func (t *reporter) step(s Step) {
	before := t.last[s.Node]
	if s.Says == "" || s.Says == before.Says {
		return
	}
	t.last[s.Node] = s.Step
	if s.Do != plan.Evict || before.Do != plan.Evict || s.Blocked {
		t.notify(s.Node, s.Says)
	}
}

func (t *reporter) alone(nodes map[string]cloud.Refusal) {
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		t.step(Step{name, plan.Step{Says: nodes[name].Message}})
	}
}
