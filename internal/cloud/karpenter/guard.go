package karpenter

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// budget limits how many nodes of a NodePool Karpenter disrupts at a time. Without reasons it is for every reason. A budget with a
// schedule is without effect at other times. Source: Karpenter, pkg/apis/v1/nodepool.go, GetAllowedDisruptionsByReason.
type budget struct {
	Nodes    string   `json:"nodes"`
	Reasons  []string `json:"reasons,omitempty"`
	Schedule string   `json:"schedule,omitempty"`
	Duration string   `json:"duration,omitempty"`
}

// drifted is the reason with which Karpenter replaces nodes of another AMI.
const drifted = "Drifted"

// forbidsDrift reports whether Karpenter replaces no drifted node because of the budget, at any time.
func (b budget) forbidsDrift() bool {
	none := b.Nodes == "0" || b.Nodes == "0%"
	return none && b.Schedule == "" && b.Duration == "" && (len(b.Reasons) == 0 || slices.Contains(b.Reasons, drifted))
}

// isGuarded reports whether Karpenter replaces no drifted node of the NodePool.
func (p nodePool) isGuarded() bool {
	return slices.ContainsFunc(p.Spec.Disruption.Budgets, budget.forbidsDrift)
}

// defaultBudget is Karpenter's for a NodePool without budgets. A list with the guard alone would lift the limit for all other reasons.
var defaultBudget = budget{Nodes: "10%"}

// driftRate says how many drifted nodes of the NodePool Karpenter replaces at a time. Budgets with a schedule limit nothing at other times.
func (p nodePool) driftRate() string {
	var limits []string
	for _, b := range p.Spec.Disruption.Budgets {
		if b.Schedule == "" && b.Duration == "" && (len(b.Reasons) == 0 || slices.Contains(b.Reasons, drifted)) {
			limits = append(limits, b.Nodes)
		}
	}
	switch {
	case len(p.Spec.Disruption.Budgets) == 0:
		return defaultBudget.Nodes + " at a time"
	case len(limits) == 0:
		return "all at once"
	}
	return "at most " + strings.Join(limits, " or ") + " at a time"
}

// guardPatch returns the merge patch that adds the guard to the budgets that are there.
func (p nodePool) guardPatch() string {
	budgets := p.Spec.Disruption.Budgets
	if len(budgets) == 0 {
		budgets = []budget{defaultBudget}
	}
	budgets = append(slices.Clone(budgets), budget{Nodes: "0", Reasons: []string{drifted}})
	text, _ := json.Marshal(object{"spec": object{"disruption": object{"budgets": budgets}}}) // plain values
	return string(text)
}

// refuseDrift refuses a change of the class while Karpenter would replace nodes of one of its NodePools; nil if all are guarded.
func refuseDrift(class string, all []nodePool) *cloud.Refusal {
	var open, patches []string
	for _, p := range all {
		if !p.isGuarded() {
			open = append(open, p.Metadata.Name+" ("+p.driftRate()+")")
			patches = append(patches, fmt.Sprintf("kubectl patch nodepool %s --type merge -p '%s'", p.Metadata.Name, p.guardPatch()))
		}
	}
	if len(open) == 0 {
		return nil
	}
	of := "NodePool " + open[0]
	if len(open) > 1 {
		of = "NodePools " + strings.Join(open, ", ")
	}
	refusal := cloud.Refuse(cloud.NodesWouldBeReplaced,
		fmt.Sprintf("%s of EC2NodeClass %s would replace every running node at a new image, because no budget forbids the disruption reason %s",
			of, class, drifted),
		"add the budget: "+strings.Join(patches, "; "))
	return &refusal
}
