package plan

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/plantest"
)

type wrong = plantest.Wrong[Facts, Action, Reason]

// mutants are planners by the name of their mistake. The rules must catch all; a rule without a mutant is useless.
var mutants = wrong{
	"begins although refused": with(func(f *Facts) { f.Refused = false }),
	"takes a donor without a look": with(func(f *Facts) {
		if !f.isHeld() && !f.MustBoot() && f.Disk.Pod == NoPod {
			f.Disk.Pod = PodLooked
		}
	}),
	"takes a donor although the look said no": with(func(f *Facts) {
		if !f.isHeld() && !f.MustBoot() && f.Disk.Pod == PodFailed {
			f.Disk.Pod = PodLooked
		}
	}),
	"takes a donor after the look at another node": with(mistaken(func(f *Facts) *Pod { return &f.Disk.Pod }, PodCompared, PodLooked)),
	"does not look again for who has a node away":  with(func(f *Facts) { f.Queued = f.Queued && !f.isHeld() }),
	"drains beside the pod that looked": with(func(f *Facts) {
		if f.isHeld() && !f.MustBoot() && !f.Failed && !f.Deleting {
			f.Disk.Pod = NoPod
		}
	}),
	"refuses and leaves the pod that looked": where(func(f Facts, d Decision) bool {
		return d.Do == DeletePod && f.Refused && !f.isHeld() && !f.Failed && !f.Deleting
	}, do(Refuse)),
	"goes on although deleted":                with(func(f *Facts) { f.Deleting = false }),
	"forgets its verdict":                     with(func(f *Facts) { f.Failed = false }),
	"cordons before it records":               where(func(f Facts, d Decision) bool { return d.Do == Record && !f.Donor.Cordoned }, do(Cordon)),
	"evicts before it cordons":                where(func(f Facts, d Decision) bool { return d.Do == Cordon && !f.Donor.Drained }, do(Evict)),
	"evicts without protection":               with(func(f *Facts) { f.Hold.Protected = true }),
	"generalizes a donor that still has pods": with(func(f *Facts) { f.Donor.Drained = true }),
	"makes the pod before the order":          instead(Order, do(Generalize)),
	"stops before the proof":                  replace(wait(ForProof), do(TakeSnapshot)),
	"copies a disk without proof":             with(func(f *Facts) { f.Disk.Proven = f.Disk.Proven || f.Disk.Touched && f.Donor.Power == Off }),
	"acts on a proof that its pod may take back": func(f Facts) Decision {
		if d := Next(f); d.Do == DeleteOrder && f.Disk.Proven && f.Image.Snapshot == Absent {
			f.Disk.Order = false
			return Next(f)
		}
		return Next(f)
	},
	"believes before it knows the pod":  with(func(f *Facts) { f.Disk.PodKnown = true }),
	"leaves the order behind":           with(func(f *Facts) { f.Disk.Order = f.Disk.Order && !f.Failed }),
	"publishes what has lost its proof": with(func(f *Facts) { f.Disk.ProofLost = false }),
	"copies a running disk":             instead(Stop, do(TakeSnapshot)),
	"stops what is powering itself off": with(func(f *Facts) { f.Disk.PoweringOff = false }),
	"leaves a donor to its powering off for good": where(func(f Facts, d Decision) bool {
		return d.Do == Stop && f.Disk.Proven
	}, wait(ForPowerOff)),
	"does not see that the donor was restarted": with(func(f *Facts) { f.Donor.Rebooted = f.Donor.Rebooted && f.Hold.Returning }),
	"starts before it is written down":          instead(Return, do(Start)),
	"starts while the pod is there": where(func(f Facts, d Decision) bool {
		return d.Do == DeletePod && f.Donor.Power == Off && !f.Hold.Returning
	}, do(Return)),
	"stops a donor that comes back": replace(wait(ForReady), do(Stop)),
	"publishes while it holds the donor": where(func(f Facts, _ Decision) bool {
		return f.Image.Snapshot == Complete && f.Image.Version == Absent && f.isHeld() && !f.Failed && !f.Deleting
	}, do(Publish)),
	"keeps the donor until the image is made": where(func(f Facts, d Decision) bool {
		return f.Image.Snapshot == Complete && d.Do == Unprotect
	}, wait(ForImage)),
	"holds the donor one step too long":  instead(Start, wait(ForReady)),
	"releases without waiting for Ready": replace(wait(ForReady), do(Release)),
	"releases a disturbed donor without a boot": where(func(f Facts, d Decision) bool {
		return d.Do == Stop && (f.Failed || f.Deleting)
	}, do(Release)),
	"trusts a stale Ready":          with(func(f *Facts) { f.Donor.Rebooted = f.Donor.Rebooted || f.Hold.Returning && f.Donor.Node == NodeReady }),
	"leaves the protection":         instead(Unprotect, do(Release)),
	"leaves the cordon":             with(func(f *Facts) { f.Hold.Restored = true; f.Hold.Lock = oursOnlyIfRecorded(*f) }),
	"forgets before it releases":    where(func(f Facts, d Decision) bool { return d.Do == Release && f.Hold.Recorded }, do(Forget)),
	"gives up a donor that is off":  where(func(f Facts, d Decision) bool { return d.Do == Start && f.Hold.ReadyOverdue }, do(Release)),
	"promotes an unfinished image":  replace(wait(ForImage), do(Promote)),
	"promotes a quarantined image":  with(func(f *Facts) { f.Image.Quarantined = false }),
	"promotes over a newer version": with(mistaken(func(f *Facts) *Recipe { return &f.Promotion.Recipe }, RecipeNewer, RecipeElsewhere)),
	"promotes before it saves":      instead(SaveRecipe, do(Promote)),
	"retires before it promotes":    where(func(f Facts, d Decision) bool { return d.Do == Promote && f.Promotion.MustRetire }, do(Retire)),
	"does not retire":               instead(Retire, do(Succeed)),
	"leaves the snapshot behind": with(func(f *Facts) {
		if f.Image.Version == Complete {
			f.Image.Snapshot = Absent
		}
	}),
	"leaves the snapshot of a failure behind": instead(DeleteSnapshot, do(Close)),
	"deletes the snapshot too early":          replace(wait(ForImage), do(DeleteSnapshot)),
	"leaves the pod behind": with(func(f *Facts) {
		if f.Failed {
			f.Disk.Pod = NoPod
		}
	}),
	"leaves a broken image behind": instead(DeleteImage, do(Close)),
	"deletes an image that a recipe may name": where(func(f Facts, _ Decision) bool {
		return (f.Failed || f.Deleting) && f.Image.Version == Complete && !f.isHeld()
	}, do(DeleteImage)),
	"waits for a proof past the deadline":         with(func(f *Facts) { f.Hold.Overdue = false }),
	"waits for Ready for ever":                    with(func(f *Facts) { f.Hold.ReadyOverdue = false }),
	"waits for a budget for ever":                 with(func(f *Facts) { f.Donor.DrainOverdue = false; f.Hold.Overdue = false }),
	"never believes that the image is there":      with(mistaken(versionOf, Complete, Pending)),
	"takes a snapshot that failed for a good one": with(mistaken(snapshotOf, Broken, Complete)),
	"leaves a stopped donor off": with(func(f *Facts) {
		if f.Donor.Power == Off && !f.MustBoot() {
			f.Donor.Power = On
		}
	}),
	"waits for a stopped donor":               replace(fail(DonorStopped), wait(ForDonor)),
	"takes another holder's reservation away": with(mistaken(lockOf, Theirs, Overwritten)),
	"waits for a holder that there is not": with(func(f *Facts) {
		if f.Hold.Lock == Overwritten && f.isHeld() {
			f.Hold.Lock = Theirs
		}
	}),
	"leaves the node after another client wrote over the reservation": with(func(f *Facts) { f.Hold.Restored = f.Hold.Restored || f.Hold.Lock == Overwritten }),
	"makes the pod before the Node knows of it":                       with(func(f *Facts) { f.Hold.Noted = true }),
	"forgets the order with the record": with(func(f *Facts) {
		if f.Hold.Lock == Ours && !f.Hold.Recorded {
			f.Disk.Touched, f.Donor.MustLeaveBoot, f.Hold.Returning = false, false, false
		}
	}),
	"serves in the boot that it went down in": with(func(f *Facts) { f.Donor.MustLeaveBoot = f.Disk.Touched }),
	"serves with the disk that was touched": with(func(f *Facts) {
		if f.Failed || f.Deleting {
			f.Disk.Touched, f.Donor.MustLeaveBoot = false, false
		}
	}),
	"begins again without its record": with(func(f *Facts) { f.Unrecorded = false }),
	"makes the pod again for a Node that is gone": where(func(f Facts, d Decision) bool {
		return d == fail(DonorGone) && f.Disk.Touched && f.Donor.Power == On
	}, do(Generalize)),
	"fails without a reason": plantest.Mute(Next),
}

// instantMutants are wrong about a snapshot that is taken but not complete.
var instantMutants = wrong{
	"takes every snapshot that is pending for one that is taken": with(mistaken(snapshotOf, Pending, Taken)),
	"holds the donor until its snapshot is complete":             with(mistaken(snapshotOf, Taken, Pending)),
	"publishes what is only taken":                               with(mistaken(snapshotOf, Taken, Complete)),
	"leaves a snapshot behind that is only taken": where(func(f Facts, d Decision) bool {
		return f.Image.Snapshot == Taken && d.Do == DeleteSnapshot
	}, do(Close)),
}

// pioneerMutants are wrong about pioneers.
var pioneerMutants = wrong{
	"captures a pioneer without its patch":    with(mistaken(patchOf, PatchWanted, NoPatch)),
	"captures a pioneer whose patch failed":   with(mistaken(patchOf, PatchFailed, PatchDone)),
	"captures a pioneer without patches":      with(mistaken(patchOf, PatchCurrent, PatchDone)),
	"patches for ever":                        with(mistaken(patchOf, PatchDone, PatchUnderWay)),
	"drains for the capture during the patch": with(mistaken(patchOf, PatchUnderWay, PatchDone)),
	"releases a node under patch": with(func(f *Facts) {
		if f.Failed || f.Deleting {
			f.Donor.Patch = NoPatch
		}
	}),
	"begins a patch although it ends": where(func(f Facts, _ Decision) bool {
		return f.Donor.Patch == PatchWanted && f.isHeld() && (f.Failed || f.Deleting)
	}, do(PatchDonor)),
	"patches before the protection": where(func(f Facts, d Decision) bool {
		return d.Do == Protect && f.Donor.Patch == PatchWanted
	}, do(PatchDonor)),
	"patches while another node is away":   with(func(f *Facts) { f.Queued = f.Queued && f.Donor.Patch != PatchWanted }),
	"copies a disk of another patch level": with(func(f *Facts) { f.Disk.LevelDiffers = false }),
}

// with plans from changed facts: a planner without a fact.
func with(change func(*Facts)) planner { return plantest.With(Next, change) }

// where does something else where the condition holds, replace and instead where another decision or action is due.
func where(is func(Facts, Decision) bool, wrong Decision) planner {
	return plantest.Where(Next, is, wrong)
}

func replace(due, wrong Decision) planner {
	return where(func(_ Facts, d Decision) bool { return d == due }, wrong)
}

func instead(due Action, wrong Decision) planner { return plantest.Instead(Next, due, wrong) }

// mistaken changes one state of a fact into another state.
func mistaken[T comparable](fact func(*Facts) *T, is, taken T) func(*Facts) {
	return func(f *Facts) {
		if *fact(f) == is {
			*fact(f) = taken
		}
	}
}

func nodeOf(f *Facts) *Node                   { return &f.Donor.Node }
func lockOf(f *Facts) *Lock                   { return &f.Hold.Lock }
func patchOf(f *Facts) *Patch                 { return &f.Donor.Patch }
func snapshotOf(f *Facts) *Artifact           { return &f.Image.Snapshot }
func versionOf(f *Facts) *Artifact            { return &f.Image.Version }
func attemptVerdictOf(f *Facts) *TrialVerdict { return &f.Trial.AttemptVerdict }

func oursOnlyIfRecorded(f Facts) Lock {
	if f.Hold.Recorded && (f.Failed || f.Image.Snapshot == Complete) && f.Hold.Lock == Ours {
		return Unlocked
	}
	return f.Hold.Lock
}

// TestWrongPlannersAreCaught: each wrong planner breaks a rule in a reachable world.
func TestWrongPlannersAreCaught(t *testing.T) {
	for _, course := range []struct {
		name   string
		wrong  wrong
		starts []model
	}{
		{"returning donors", mutants, returningDonors()},
		{"instant snapshots", instantMutants, append(instantDonors(), returningDonors()...)},
		{"pioneers", pioneerMutants, pioneers()},
		{"published versions", trialMutants, publishedVersions()},
	} {
		t.Run(course.name, func(t *testing.T) {
			plantest.Catch(t, course.wrong, func(next planner) *plantest.Exploration[model, Facts, Action, Reason] {
				return world(course.starts).Explore(next, adversities(true))
			})
		})
	}
}
