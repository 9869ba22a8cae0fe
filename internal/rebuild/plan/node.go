// Package plan decides how the nodes of a pool are rebuilt: the next step of a reserved node (Next), and the next node
// (Choose). The package is pure, so that any process can continue after a crash and no step is done twice. Each refusal
// has its obstacle and its remedy.
package plan

import (
	"time"

	"github.com/kamino-dev/kamino/internal/step"
)

// Decision is one action, with the reason of a wait or of a node that is not rebuilt.
type Decision = step.Decision[Action, Reason]

var do, wait, _ = step.Verbs[Action, Reason]()

// Action is a step with a reserved node.
type Action string

// The actions. Each action may be repeated.
const (
	// Wait: no action is needed for now.
	Wait Action = step.Wait
	// Take reserves the node and records its state. Choose returns the node.
	Take Action = "Take"
	// Cordon marks the node unschedulable.
	Cordon Action = "Cordon"
	// Evict evicts the remaining pods.
	Evict Action = "Evict"
	// Ask records the request, asks the cloud to rebuild the node, and stores the answer in the facts. Next is called
	// again right after Ask, and after no other action.
	Ask Action = "Ask"
	// Release returns the rebuilt node to service.
	Release Action = "Release"
	// ReturnToService returns the node to service without a rebuild.
	ReturnToService Action = "GiveBack"
	// Keep keeps the node reserved, because its state is unknown. A person must look.
	Keep Action = "Keep"
	// Drop: nothing is left to do with the node.
	Drop Action = "Drop"
)

// Answer is the cloud's answer in this pass to the request for a rebuild.
type Answer string

// The answers.
const (
	// Unasked: no request yet.
	Unasked Answer = ""
	// Working: the rebuild is in progress.
	Working Answer = "Working"
	// Complete: the instance runs from a disk of the version.
	Complete Answer = "Complete"
	// NoInstance: the node's instance does not exist any more.
	NoInstance Answer = "NoInstance"
	// Busy: the cloud will do the rebuild later, because of another operation on the instance or throttling.
	Busy Answer = "Busy"
	// Elsewhere: the recipe names another version than the wanted version.
	Elsewhere Answer = "Elsewhere"
	// Denied: the cloud refuses the rebuild permanently.
	Denied Answer = "Denied"
)

// Reason is the awaited event of a wait, or why a node is not rebuilt.
type Reason string

// The events that a rebuild waits for.
const (
	// ForTurn: the cloud rebuilds the instance later. ForRebuild: the cloud rebuilds the instance. ForBoot: the rebuilt
	// instance is not Ready under its new boot.
	ForTurn    Reason = "Turn"
	ForRebuild Reason = "Rebuild"
	ForBoot    Reason = "Boot"
)

// Reasons why a node is not rebuilt.
const (
	// ReservationLost: another client reserved the node or deleted its reservation.
	ReservationLost = "Reserved"
	// Unconfirmed: the node has a reservation that no Lease confirms.
	Unconfirmed = "HolderUnattended"
	// PolicyGone: the policy behind the rebuild is deleted.
	PolicyGone = "PolicyGone"
	// InService: the node was uncordoned during the rebuild, and accepts pods.
	InService = "InService"
	// PodsStuck: some pods cannot be evicted, because no controller would create them again.
	PodsStuck = "UnmanagedPods"
	// NotDrained: a budget blocked an eviction until the deadline.
	NotDrained = "DrainTimeout"
	// RecipeChanged: the recipe names another version now.
	RecipeChanged = "RecipeChanged"
	// RebuildRefused: the cloud refuses the rebuild.
	RebuildRefused = "CloudRefused"
	// NodeNotReady: the node is not Ready in time after its rebuild.
	NodeNotReady = "NodeNotReady"
)

// Node has the facts about a reserved node.
type Node struct {
	Name string
	// To is the version for the rebuild.
	To string
	// Gone is true if the Node does not exist any more.
	Gone bool
	// Held is true if this replacement reserved the node. Otherwise By names the holder; empty without a holder.
	Held bool
	By   string
	// Unconfirmed is true if the node has this replacement's reservation without a Lease. Released is true if the
	// reservation is gone and the node is as before.
	Unconfirmed, Released bool
	// Unattended is true if a policy requested the rebuild. PolicyGone is true if the policy is deleted.
	Unattended, PolicyGone bool
	// Cordoned and Ready are the state of the Node. Rebooted is true if the boot ID changed since the reservation.
	Cordoned, Ready, Rebooted bool
	// AtOnce skips the drain. Force deletes pods without a controller, and ignores budgets after the deadline.
	AtOnce, Force bool
	// Pods is the number of pods that have to leave. Stuck explains pods that cannot be evicted, and Blocked one
	// blocked eviction. The fields are set before the request to the cloud only.
	Pods    int
	Stuck   []string
	Blocked string
	// Overdue is true after the drain deadline. DrainTime is the time allowed.
	Overdue   bool
	DrainTime time.Duration
	// Asked is true if the Node records a request to the cloud in an earlier pass.
	Asked bool
	// ReturnOverdue is true after the deadline for the node's return. ReadyTime is the time allowed.
	ReturnOverdue bool
	ReadyTime     time.Duration
	// Answer is the cloud's answer, and Said its message without success.
	Answer Answer
	Said   string
}

// decide returns the next step of a node. The cloud is asked only after the drain, except with AtOnce. The node is back
// only under a new boot.
func decide(n Node) Decision {
	switch {
	case n.Gone:
		return do(Drop)
	case !n.Held:
		return n.lost()
	case n.PolicyGone && !n.Asked:
		return Decision{Do: ReturnToService, Why: PolicyGone}
	case n.Unattended && n.Asked && !n.Cordoned && n.Ready && !n.Rebooted:
		return Decision{Do: Keep, Why: InService}
	case !n.Cordoned:
		return do(Cordon)
	case !n.Asked && !n.AtOnce && (n.Pods > 0 || len(n.Stuck) > 0):
		return n.drain()
	case n.Answer == Unasked:
		return do(Ask)
	}
	return n.answered()
}

// lost returns the step of a node that this replacement does not hold.
func (n Node) lost() Decision {
	switch {
	case n.Released:
		return do(Drop)
	case n.Unconfirmed:
		return Decision{Do: Drop, Why: Unconfirmed}
	}
	return Decision{Do: Drop, Why: ReservationLost}
}

func (n Node) drain() Decision {
	switch {
	case len(n.Stuck) > 0:
		return Decision{Do: ReturnToService, Why: PodsStuck}
	case n.Overdue && !n.Force:
		return Decision{Do: ReturnToService, Why: NotDrained}
	}
	return do(Evict)
}

// answered returns the step after the cloud's answer. A complete instance that stays Ready under its old boot until the
// deadline was rebuilt before the reservation.
func (n Node) answered() Decision {
	switch {
	case n.Answer == NoInstance:
		return do(Drop)
	case n.Answer == Complete && n.Ready && (n.Rebooted || n.ReturnOverdue):
		return do(Release)
	case n.Answer == Elsewhere:
		return n.stopped(RecipeChanged)
	case n.Answer == Denied:
		return n.stopped(RebuildRefused)
	case n.ReturnOverdue:
		return Decision{Do: Keep, Why: NodeNotReady}
	case n.Answer == Busy:
		return wait(ForTurn)
	case n.Answer == Complete:
		return wait(ForBoot)
	}
	return wait(ForRebuild)
}

// stopped ends a node that the cloud does not rebuild. A node whose rebuild may have begun stays reserved.
func (n Node) stopped(why Reason) Decision {
	if n.Asked {
		return Decision{Do: Keep, Why: why}
	}
	return Decision{Do: ReturnToService, Why: why}
}
