package plan

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/plantest"
)

// with plans from changed facts: a planner without a fact.
func with(change func(*Facts)) planner { return plantest.With(Next, change) }

// instead does another action where the right one is due.
func instead(due Action, wrong Decision) planner { return plantest.Instead(Next, due, wrong) }

// wrong are planners by the name of their mistake. The rules must catch all.
var wrong = plantest.Wrong[Facts, Action, Reason]{
	"patches a node that another holder has": with(func(f *Facts) { f.Lock = Ours }),
	"begins although stopped":                with(func(f *Facts) { f.Ending = false }),
	"gives up a patch in progress": func(f Facts) Decision {
		if d := Next(f); f.Ending && d.Why == ForReport {
			return fail(Stopped)
		}
		return Next(f)
	},
	"waits for a machine that is off":     with(func(f *Facts) { f.Off = false }),
	"patches a node with pods":            with(func(f *Facts) { f.Drained = true }),
	"patches a node that takes pods":      with(func(f *Facts) { f.Cordoned = f.Cordoned || f.Order == NoOrder }),
	"patches a node that is not healthy":  with(func(f *Facts) { f.Unhealthy = false }),
	"waits for health without a deadline": with(func(f *Facts) { f.Overdue = f.Overdue && !f.Unhealthy }),
	"runs a pod without a record":         instead(OrderPatch, do(RunPod)),
	"runs the patch again after a reboot": with(func(f *Facts) { f.Rebooted = f.Rebooted && f.Order == RebootOrder }),
	"believes a pod that it does not know": func(f Facts) Decision {
		if d := Next(f); d.Do == Adopt {
			return do(Believe)
		}
		return Next(f)
	},
	"takes a failed patch for a complete patch": with(func(f *Facts) {
		if f.Result == Incomplete {
			f.Result = Patched
		}
	}),
	"takes could not check for nothing to patch": with(func(f *Facts) {
		if f.Result == Refused {
			f.Result = Current
		}
	}),
	"takes a patch for nothing to patch": with(func(f *Facts) {
		if f.Result == Patched {
			f.Result = Current
		}
	}),
	"boots a quarantined level":       with(func(f *Facts) { f.LevelQuarantined = false }),
	"reboots without an announcement": with(func(f *Facts) { f.PendingMarked = true }),
	"reboots beside the pod of the patch": with(func(f *Facts) {
		if f.Result == Patched && !f.Rebooted && f.Order == PatchOrder {
			f.Pod, f.OrderLeft = NoPod, false
		}
	}),
	"reboots a node with pods": func(f Facts) Decision {
		if f.Failure == "" && f.Result == Patched && f.Order == PatchOrder {
			f.Drained = true
		}
		return Next(f)
	},
	"skips the reboot": with(func(f *Facts) { f.Rebooted = f.Rebooted || f.Result == Patched }),
	"reboots again": func(f Facts) Decision {
		if d := Next(f); d.Why == ForReboot {
			return do(OrderReboot)
		}
		return Next(f)
	},
	"trusts a stale Ready": with(func(f *Facts) { f.Rebooted = f.Rebooted || f.Order == RebootOrder && f.Node == NodeReady }),
	"returns a node that is not Ready": func(f Facts) Decision {
		if d := Next(f); d.Why == ForReady && f.Cordoned {
			return do(Uncordon)
		}
		return Next(f)
	},
	"returns a node before its mark":          instead(MarkPatched, do(Uncordon)),
	"skips the soak":                          with(func(f *Facts) { f.Soaked = f.Soaked || f.PatchedMarked }),
	"waits for the soak without a deadline":   with(func(f *Facts) { f.Overdue = f.Overdue && !f.Rebooted }),
	"waits for the report without a deadline": with(func(f *Facts) { f.Overdue = f.Overdue && f.Result != NoResult }),
	"waits for the reboot without a deadline": with(func(f *Facts) { f.Overdue = f.Overdue && f.Order != RebootOrder }),
	"does not run a second pod": func(f Facts) Decision {
		if d := Next(f); d.Do == RunPod && f.Order == PatchOrder && f.Overdue {
			return wait(ForReport)
		}
		if d := Next(f); d.Do == DeletePod && f.Result == NoResult && f.Failure == "" {
			return wait(ForReport)
		}
		return Next(f)
	},
	"waits for a pod that does not start": with(func(f *Facts) {
		if f.Pod == PodStuck {
			f.Pod = PodActive
		}
	}),
	"forgets the level that failed": with(func(f *Facts) { f.LevelRecorded = true }),
	"blames the level for every end": func(f Facts) Decision {
		if d := Next(f); d.Do == Close && f.hasLevel() && !f.LevelRecorded {
			return do(Quarantine)
		}
		return Next(f)
	},
	"does not mark a failed patch": with(func(f *Facts) { f.FailedMarked = true }),
	"leaves the pod": with(func(f *Facts) {
		if f.Failure != "" {
			f.Pod = NoPod
		}
	}),
	"leaves the order": with(func(f *Facts) {
		if f.Failure != "" {
			f.OrderLeft = false
		}
	}),
	"leaves the order of a patch that found nothing": with(func(f *Facts) {
		if f.Result == Current {
			f.OrderLeft = false
		}
	}),
	"forgets its failure":              with(func(f *Facts) { f.Failure = "" }),
	"fails without a reason":           plantest.Mute(Next),
	"marks a node that has not booted": instead(OrderReboot, do(MarkPatched)),
}

// TestWrongPlannersAreCaught tests the rules: each wrong planner breaks one in a reachable world.
func TestWrongPlannersAreCaught(t *testing.T) {
	plantest.Catch(t, wrong, func(next planner) *plantest.Exploration[model, Facts, Action, Reason] {
		return world().Explore(next, adversities(true))
	})
}
