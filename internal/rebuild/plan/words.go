package plan

import (
	"fmt"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Step is the next step of a node, in words.
type Step struct {
	Decision
	// Hard deletes pods instead of evicting them.
	Hard bool
	// Blocked is true if a budget blocks an eviction for now.
	Blocked bool
	// Says continues a sentence that begins with the node's name; empty without news.
	Says string
	// Refusal is why the node is not rebuilt; nil if it is, or if no rebuild is needed.
	Refusal *cloud.Refusal
}

// Next returns the next step of a node.
func Next(n Node) Step {
	d := decide(n)
	s := Step{Decision: d, Hard: d.Do == Evict && n.Force && n.Overdue}
	if d.Why == "" || d.Waits() {
		s.Says = n.news(d)
		return s
	}
	refusal := cloud.Refuse(string(d.Why), n.obstacle(d), n.remedy(d))
	s.Says, s.Refusal = refusal.Message, &refusal
	return s
}

// news is the sentence after the node's name for a step without a refusal; empty without news.
func (n Node) news(d Decision) string {
	switch {
	case d.Do == Drop && n.Gone:
		return "is gone, and needs no rebuild"
	case d.Do == Drop && !n.Held:
		return "is released"
	case d.Do == Drop:
		return "has no instance any more, and needs no rebuild"
	case d.Do == Cordon:
		return "is cordoned"
	case d.Do == Evict:
		return "drains: " + wording.Count(n.Pods, "pod") + " left"
	case d.Do == Release:
		return "runs version " + n.To + " and is back in service"
	case d.Why == ForTurn:
		return "waits: " + n.Said
	case d.Why == ForBoot:
		return "boots"
	case d.Why == ForRebuild && n.Said != "":
		return "is rebuilt again, because the cloud failed: " + n.Said
	case d.Why == ForRebuild:
		return "is being rebuilt from version " + n.To
	}
	return ""
}

// obstacle continues a sentence that begins with the node's name.
func (n Node) obstacle(d Decision) string {
	switch d.Why {
	case PolicyGone:
		return "returns to service without a rebuild: the policy is deleted"
	case InService:
		return "was uncordoned during the rebuild, and accepts pods: Kamino leaves the node alone"
	case Unconfirmed:
		return "has a reservation without a Lease of Kamino, and is left alone"
	case ReservationLost:
		if n.By == "" {
			return "is no longer reserved for this rebuild: annotation " + v1alpha1.ReservationAnnotation + " is gone"
		}
		return "is no longer reserved for this rebuild: the node is held by " + n.By
	case PodsStuck:
		return "cannot be drained: " + strings.Join(n.Stuck, "; ")
	case NotDrained:
		why := n.Blocked
		if why == "" {
			why = wording.Count(n.Pods, "pod") + " left"
		}
		return fmt.Sprintf("was not drained within %s: %s", n.DrainTime, why)
	case NodeNotReady:
		return fmt.Sprintf("was not Ready again within %s, and stays cordoned", n.ReadyTime)
	case ForTurn, ForRebuild, ForBoot: // a wait has news, and no obstacle
	}
	if d.Do == Keep {
		return "is partly rebuilt, and stays cordoned: " + n.Said
	}
	return "returns to service without a rebuild: " + n.Said
}

// remedy is what a person can do.
func (n Node) remedy(d Decision) string {
	switch d.Why {
	case PolicyGone:
		return "create the policy again, or run `kamino rebuild`"
	case InService:
		return "run `kamino return-node " + n.Name + "` to keep the node, or cordon the node for the rebuild"
	case Unconfirmed:
		return "find the client that writes annotation " + v1alpha1.ReservationAnnotation + ", then run `kamino return-node " + n.Name + " --node-only`"
	case ReservationLost:
		if n.By == "" {
			return "find the client that works on the node"
		}
		return "wait until the holder releases the node"
	case PodsStuck:
		return "remove the pods, or delete the pods with --force (settings.drain.force)"
	case NotDrained:
		return "remove the obstacle, or ignore budgets with --force (settings.drain.force)"
	case RecipeChanged:
		return "point the recipe at version " + n.To + " again, or start a rebuild with the version of the recipe"
	case NodeNotReady:
		return fmt.Sprintf("see `kubectl describe node %s`; the same command continues the rebuild", n.Name)
	case ForTurn, ForRebuild, ForBoot: // a wait needs nothing
	}
	return "correct the cause; `kamino doctor` names missing permissions"
}
