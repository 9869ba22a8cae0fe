// Package plan decides how the nodes of a pool are built anew: the next step of a node that is taken (Next), and which node
// is taken next (Choose). It reads facts alone, so that whoever is asked after a crash goes on, and nothing is done twice
// that is done already. Each refusal says what is in the way and what to do about it.
package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Action is what is done to a node that is taken.
type Action string

// The actions. Each may be repeated.
const (
	// Wait: what is awaited comes by itself.
	Wait Action = "Wait"
	// Take is the first of them: it writes on the node who has it, and how it was. Choose says which.
	Take Action = "Take"
	// Cordon keeps new pods from it.
	Cordon Action = "Cordon"
	// Evict asks the pods that are left to go.
	Evict Action = "Evict"
	// Ask writes down that its cloud is asked, asks it to rebuild the node, and takes the answer into the facts: it is the one
	// action behind which Next is to be asked again at once.
	Ask Action = "Ask"
	// Release gives it back to service, rebuilt.
	Release Action = "Release"
	// GiveBack gives it back as it was, because it can't be rebuilt.
	GiveBack Action = "GiveBack"
	// Keep leaves it held, because nobody knows what became of it: a person must look.
	Keep Action = "Keep"
	// Drop: there is nothing left to do to it.
	Drop Action = "Drop"
)

// Answer is what the cloud said in this pass when it was asked to rebuild a node.
type Answer string

// The answers.
const (
	// Unasked: it was not asked yet.
	Unasked Answer = ""
	// Working: it is at it.
	Working Answer = "Working"
	// Complete: the instance runs on a disk that was made from the version.
	Complete Answer = "Complete"
	// NoInstance: there is none behind the node any more.
	NoInstance Answer = "NoInstance"
	// Busy: it will do it later, for somebody else is at the instance or too much was asked.
	Busy Answer = "Busy"
	// Elsewhere: the recipe names another version than the node is to be rebuilt from.
	Elsewhere Answer = "Elsewhere"
	// Denied: it does not do it, however often it is asked.
	Denied Answer = "Denied"
)

// Reasons why a node is not rebuilt.
const (
	// TakenAway: somebody else took the node, or its reservation.
	TakenAway = "TakenAway"
	// Unconfirmed: the node carries a reservation that no Lease confirms.
	Unconfirmed = "Unconfirmed"
	// PolicyGone: the policy that had the node taken is gone.
	PolicyGone = "PolicyGone"
	// InService: the node was uncordoned while it was being rebuilt, and takes pods.
	InService = "InService"
	// PodsStuck: pods of it may not be evicted, because nothing makes them again.
	PodsStuck = "PodsStuck"
	// NotDrained: a budget did not give way in time.
	NotDrained = "NotDrained"
	// RecipeMoved: the recipe names another version now.
	RecipeMoved = "RecipeMoved"
	// RebuildRefused: the cloud does not do it.
	RebuildRefused = "RebuildRefused"
	// NotBack: the node is not Ready in time behind its rebuild.
	NotBack = "NotBack"
)

// Node is what is known of a node that is taken.
type Node struct {
	Name string
	// To is the version that it is rebuilt from.
	To string
	// Gone: there is no such Node any more.
	Gone bool
	// Held by this replacement; if not, By names who has it, and is empty if nobody does.
	Held bool
	By   string
	// Unconfirmed: it carries this replacement's reservation, and no Lease says so. GivenBack: it does not carry it any more, and is
	// as it was before.
	Unconfirmed, GivenBack bool
	// Unattended: no person asked for the rebuild, but a policy. PolicyGone: that policy is gone.
	Unattended, PolicyGone bool
	// Cordoned and Ready are what it says of itself, and Rebooted that it runs under another boot than when it was taken.
	Cordoned, Ready, Rebooted bool
	// AtOnce: it is not drained. Force: pods that nothing makes again are lost, and at the end of the time budgets count no more.
	AtOnce, Force bool
	// Pods that have to leave, Stuck sentences of those that may not be evicted, and Blocked why one of them does not go. They
	// are known before the cloud was asked.
	Pods    int
	Stuck   []string
	Blocked string
	// Overdue: the time to drain it is over, which was DrainTime.
	Overdue   bool
	DrainTime time.Duration
	// Asked: it is written on the node that its cloud was asked to rebuild it, before this pass.
	Asked bool
	// Late: the time to come back is over, which was ReadyTime.
	Late      bool
	ReadyTime time.Duration
	// Answer of the cloud, and what it said if that is no success.
	Answer Answer
	Said   string
}

// Step is what to do to a node.
type Step struct {
	Action Action
	// Hard: pods are deleted in place of being evicted.
	Hard bool
	// Blocked: a budget holds a pod back for now.
	Blocked bool
	// Says is what becomes of the node, as part of a sentence behind its name; empty where there is nothing to tell.
	Says string
	// Refusal is why it is not rebuilt; nil if it is, or needs not be.
	Refusal *cloud.Refusal
}

// Next is the next step of a node. A node is asked about by its cloud only when nothing runs on it any more, unless it is one
// of many that go at once; it is back only under another boot.
func Next(n Node) Step {
	switch {
	case n.Gone:
		return Step{Action: Drop, Says: "is gone, and so needs no rebuilding"}
	case !n.Held:
		return n.lost()
	case n.PolicyGone && !n.Asked:
		return refused(GiveBack, PolicyGone, "is given back as it is: the policy that had it taken is gone", "make the policy again, or run `kamino rebuild`")
	case n.Unattended && n.Asked && !n.Cordoned && n.Ready && !n.Rebooted:
		return refused(Keep, InService, "was uncordoned while it was being rebuilt, and takes pods: it is left alone",
			"run `kamino return "+n.Name+"` to keep it as it is, or cordon it to have it rebuilt")
	case !n.Cordoned:
		return Step{Action: Cordon, Says: "is cordoned"}
	case !n.Asked && !n.AtOnce && (n.Pods > 0 || len(n.Stuck) > 0):
		return n.drain()
	case n.Answer == Unasked:
		return Step{Action: Ask}
	}
	return n.answered()
}

// lost is the step of a node that this replacement does not hold.
func (n Node) lost() Step {
	switch {
	case n.GivenBack:
		return Step{Action: Drop, Says: "is given back"}
	case n.Unconfirmed:
		return refused(Drop, Unconfirmed, "carries a reservation that no Lease of Kamino's confirms, and is left alone",
			"see who writes annotation "+v1alpha1.ReservationAnnotation+", then run `kamino return "+n.Name+" --node-only`")
	case n.By == "":
		return refused(Drop, TakenAway, "was taken away from this rebuild: its annotation "+v1alpha1.ReservationAnnotation+" is gone", "see who works on it")
	}
	return refused(Drop, TakenAway, "was taken away from this rebuild: it is held by "+n.By, "wait until it is given back")
}

func (n Node) drain() Step {
	switch {
	case len(n.Stuck) > 0:
		return refused(GiveBack, PodsStuck, "can't be drained: "+strings.Join(n.Stuck, "; "), "remove them, or use --force to lose them (settings.drain.force)")
	case n.Overdue && !n.Force:
		why := n.Blocked
		if why == "" {
			why = wording.Count(n.Pods, "pod") + " left"
		}
		return refused(GiveBack, NotDrained, fmt.Sprintf("was not drained within %s: %s", n.DrainTime, why),
			"see to that, or have no regard to budgets with --force (settings.drain.force)")
	}
	return Step{Action: Evict, Hard: n.Force && n.Overdue, Says: "drains: " + wording.Count(n.Pods, "pod") + " left"}
}

// answered is the step behind the cloud's answer. One that is complete and Ready for so long under its old boot was rebuilt
// before it was taken.
func (n Node) answered() Step {
	switch {
	case n.Answer == NoInstance:
		return Step{Action: Drop, Says: "has no instance any more, and so needs no rebuilding"}
	case n.Answer == Complete && n.Ready && (n.Rebooted || n.Late):
		return Step{Action: Release, Says: "runs version " + n.To + " and is back in service"}
	case n.Answer == Elsewhere:
		return n.stopped(RecipeMoved, "point the recipe at version "+n.To+" again, or begin anew with what it names")
	case n.Answer == Denied:
		return n.stopped(RebuildRefused, "mend that; `kamino doctor` names permissions that are missing")
	case n.Late:
		return refused(Keep, NotBack, fmt.Sprintf("did not come back within %s and stays cordoned", n.ReadyTime),
			fmt.Sprintf("see `kubectl describe node %s`; the same command goes on with it", n.Name))
	case n.Answer == Busy:
		return Step{Action: Wait, Says: "waits: " + n.Said}
	case n.Answer == Complete:
		return Step{Action: Wait, Says: "boots"}
	}
	if n.Said != "" {
		return Step{Action: Wait, Says: "is rebuilt once more, because the cloud failed: " + n.Said}
	}
	return Step{Action: Wait, Says: "is being rebuilt from version " + n.To}
}

// stopped is the end of a node that the cloud does not rebuild. One that it may have begun with stays held.
func (n Node) stopped(reason, remedy string) Step {
	if n.Asked {
		return refused(Keep, reason, "is half-way and stays cordoned: "+n.Said, remedy)
	}
	return refused(GiveBack, reason, "is given back as it is: "+n.Said, remedy)
}

func refused(action Action, reason, obstacle, remedy string) Step {
	r := cloud.Refuse(reason, obstacle, remedy)
	return Step{Action: action, Says: r.Message, Refusal: &r}
}
