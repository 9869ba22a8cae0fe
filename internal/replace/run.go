package replace

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/replace/plan"
)

// Result tells what became of the nodes.
type Result struct {
	// Rebuilt nodes, in the order in which they came back.
	Rebuilt []string
	// Failed nodes, each with the reason. Those that were not rebuilt were given back; others are still taken.
	Failed map[string]string
	// Waiting says what kept the rest from being taken; empty if there is no rest.
	Waiting string
}

// Run makes passes until no node runs what must go, or none can be taken any more, with the pauses between them made by wait.
// Each step of a node is told, once, as part of a sentence behind its name. An error ends it early: what was done stays done,
// and a node that is taken stays taken until somebody goes on with it.
func (r *Replacement) Run(ctx context.Context, tell func(node, what string), wait func(context.Context, time.Duration) error) (Result, error) {
	t := teller{tell: tell, last: map[string]plan.Step{}}
	result, moved := Result{}, time.Time{}
	for {
		report, err := r.Pass(ctx)
		for _, step := range report.Steps {
			t.step(step)
			if step.Action == plan.Release {
				result.Rebuilt = append(result.Rebuilt, step.Node)
			}
		}
		t.alone(r.roster.choice.Alone)
		result.Failed, result.Waiting = r.refusals(), ""
		if r.roster.choice.Left > 0 {
			result.Waiting = r.roster.choice.Waiting
		}
		if err != nil {
			return result, err
		}
		if now := r.Now(); len(report.Taken) > 0 || moved.IsZero() {
			moved = now
		}
		if r.over(report, moved) {
			return result, nil
		}
		if err := wait(ctx, report.After); err != nil {
			return result, err
		}
	}
}

// over tells that nothing is under way and nothing more comes. What is left then waits for something that is not ours to mend,
// and not for ever.
func (r *Replacement) over(report Report, moved time.Time) bool {
	if len(report.Taken) > 0 || report.Choice.Take != "" || r.roster.freed {
		return false
	}
	return report.Choice.Left == 0 || r.lost() || r.Now().Sub(moved) > r.ReadyTimeout
}

// refusals are the nodes that were not rebuilt, and those that are left alone, each with the sentence.
func (r *Replacement) refusals() map[string]string {
	all := map[string]string{}
	for _, some := range []map[string]cloud.Refusal{r.roster.choice.Alone, r.failed} {
		for name, refusal := range some {
			all[name] = refusal.Message
		}
	}
	return all
}

// lost tells whether a node that is given up is still held, and takes the place of others.
func (r *Replacement) lost() bool {
	for _, m := range r.roster.pool.Members {
		if _, failed := r.failed[m.Name]; failed && m.Taken {
			return true
		}
	}
	return false
}

// teller tells each thing of a node once.
type teller struct {
	tell func(node, what string)
	last map[string]plan.Step
}

// step tells of a step. While a node is drained fewer and fewer pods are no news.
func (t *teller) step(s Step) {
	before := t.last[s.Node]
	if s.Says == "" || s.Says == before.Says {
		return
	}
	t.last[s.Node] = s.Step
	if s.Action != plan.Evict || before.Action != plan.Evict || s.Blocked {
		t.tell(s.Node, s.Says)
	}
}

func (t *teller) alone(nodes map[string]cloud.Refusal) {
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		t.step(Step{name, plan.Step{Says: nodes[name].Message}})
	}
}
