package plan

import (
	"slices"
	"testing"
)

type mutant struct {
	name string
	next planner
}

// mutants are wrong planners with a name of their error. The properties must catch all mutants; a property without a
// mutant is useless.
var mutants = []mutant{
	{"begins although refused", with(func(f *Facts) { f.Refused = false })},
	{"takes a donor without a look", with(func(f *Facts) {
		if !f.isHeld() && !f.MustBoot() && f.Disk.Pod == NoPod {
			f.Disk.Pod = PodLooked
		}
	})},
	{"takes a donor although the look said no", with(func(f *Facts) {
		if !f.isHeld() && !f.MustBoot() && f.Disk.Pod == PodFailed {
			f.Disk.Pod = PodLooked
		}
	})},
	{"takes a donor after the look at another node", with(func(f *Facts) {
		if f.Disk.Pod == PodCompared {
			f.Disk.Pod = PodLooked
		}
	})},
	{"does not look again for who has a node away", with(func(f *Facts) { f.Queued = f.Queued && !f.isHeld() })},
	{"drains beside the pod that looked", with(func(f *Facts) {
		if f.isHeld() && !f.MustBoot() && !f.Failed && !f.Deleting {
			f.Disk.Pod = NoPod
		}
	})},
	{"refuses and leaves the pod that looked", func(f Facts) Decision {
		if d := Next(f); d.Do == DeletePod && f.Refused && !f.isHeld() && !f.Failed && !f.Deleting {
			return do(Refuse)
		}
		return Next(f)
	}},
	{"goes on although deleted", with(func(f *Facts) { f.Deleting = false })},
	{"forgets its verdict", with(func(f *Facts) { f.Failed = false })},
	{"cordons before it records", instead(Record, Cordon, func(f Facts) bool { return !f.Donor.Cordoned })},
	{"evicts before it cordons", instead(Cordon, Evict, func(f Facts) bool { return !f.Donor.Drained })},
	{"evicts without protection", with(func(f *Facts) { f.Hold.Protected = true })},
	{"generalizes a donor that still has pods", with(func(f *Facts) { f.Donor.Drained = true })},
	{"makes the pod before the order", instead(Order, Generalize, always)},
	{"stops before the proof", replace(wait(ForProof), do(TakeSnapshot))},
	{"copies a disk without proof", with(func(f *Facts) { f.Disk.Proven = f.Disk.Proven || f.Disk.Touched && f.Donor.Power == Off })},
	{"acts on a proof that its pod may take back", func(f Facts) Decision {
		if d := Next(f); d.Do == DeleteOrder && f.Disk.Proven && f.Image.Snapshot == Absent {
			f.Disk.Order = false
			return Next(f)
		}
		return Next(f)
	}},
	{"believes before it knows the pod", with(func(f *Facts) { f.Disk.PodKnown = true })},
	{"leaves the order behind", with(func(f *Facts) { f.Disk.Order = f.Disk.Order && !f.Failed })},
	{"publishes what has lost its proof", with(func(f *Facts) { f.Disk.ProofLost = false })},
	{"copies a running disk", instead(Stop, TakeSnapshot, always)},
	{"stops what is powering itself off", with(func(f *Facts) { f.Disk.PoweringOff = false })},
	{"leaves a donor to its powering off for good", func(f Facts) Decision {
		if d := Next(f); d.Do == Stop && f.Disk.Proven {
			return wait(ForPowerOff)
		}
		return Next(f)
	}},
	{"does not see that the donor was restarted", with(func(f *Facts) { f.Donor.Rebooted = f.Donor.Rebooted && f.Hold.Returning })},
	{"starts before it is written down", instead(Return, Start, always)},
	{"starts while the pod is there", func(f Facts) Decision {
		if d := Next(f); d.Do == DeletePod && f.Donor.Power == Off && !f.Hold.Returning {
			return do(Return)
		}
		return Next(f)
	}},
	{"stops a donor that comes back", func(f Facts) Decision {
		if d := Next(f); d.Why == ForReady && d.Do == Wait {
			return do(Stop)
		}
		return Next(f)
	}},
	{"publishes while it holds the donor", func(f Facts) Decision {
		if f.Image.Snapshot == Complete && f.Image.Version == Absent && f.isHeld() && !f.Failed && !f.Deleting {
			return do(Publish)
		}
		return Next(f)
	}},
	{"keeps the donor until the image is made", func(f Facts) Decision {
		if d := Next(f); f.Image.Snapshot == Complete && d.Do == Unprotect {
			return wait(ForImage)
		}
		return Next(f)
	}},
	{"holds the donor one step too long", instead(Start, Wait, always)},
	{"releases without waiting for Ready", func(f Facts) Decision {
		if d := Next(f); d.Why == ForReady {
			return do(Release)
		}
		return Next(f)
	}},
	{"releases a disturbed donor without a boot", func(f Facts) Decision {
		if d := Next(f); d.Do == Stop && (f.Failed || f.Deleting) {
			return do(Release)
		}
		return Next(f)
	}},
	{"trusts a stale Ready", with(func(f *Facts) { f.Donor.Rebooted = f.Donor.Rebooted || f.Hold.Returning && f.Donor.Node == NodeReady })},
	{"leaves the protection", instead(Unprotect, Release, always)},
	{"leaves the cordon", with(func(f *Facts) { f.Hold.Restored = true; f.Hold.Lock = oursOnlyIfRecorded(*f) })},
	{"forgets before it releases", instead(Release, Forget, func(f Facts) bool { return f.Hold.Recorded })},
	{"gives up a donor that is off", func(f Facts) Decision {
		if d := Next(f); d.Do == Start && f.Hold.ReadyOverdue {
			return do(Release)
		}
		return Next(f)
	}},
	{"promotes an unfinished image", replace(wait(ForImage), do(Promote))},
	{"promotes a quarantined image", with(func(f *Facts) { f.Image.Quarantined = false })},
	{"promotes over a newer version", with(func(f *Facts) {
		if f.Promotion.Recipe == RecipeNewer {
			f.Promotion.Recipe = RecipeElsewhere
		}
	})},
	{"promotes before it saves", instead(SaveRecipe, Promote, always)},
	{"retires before it promotes", instead(Promote, Retire, func(f Facts) bool { return f.Promotion.MustRetire })},
	{"does not retire", instead(Retire, Succeed, always)},
	{"does not grow the pool", instead(ScaleOut, Succeed, always)},
	{"leaves the snapshot behind", with(func(f *Facts) {
		if f.Image.Version == Complete {
			f.Image.Snapshot = Absent
		}
	})},
	{"leaves the snapshot of a failure behind", instead(DeleteSnapshot, Close, always)},
	{"deletes the snapshot too early", replace(wait(ForImage), do(DeleteSnapshot))},
	{"leaves the pod behind", with(func(f *Facts) {
		if f.Failed {
			f.Disk.Pod = NoPod
		}
	})},
	{"leaves a broken image behind", instead(DeleteImage, Close, always)},
	{"deletes an image that a recipe may name", func(f Facts) Decision {
		if (f.Failed || f.Deleting) && f.Image.Version == Complete && !f.isHeld() {
			return do(DeleteImage)
		}
		return Next(f)
	}},
	{"waits for a proof past the deadline", with(func(f *Facts) { f.Hold.Overdue = false })},
	{"waits for Ready for ever", with(func(f *Facts) { f.Hold.ReadyOverdue = false })},
	{"waits for a budget for ever", with(func(f *Facts) { f.Donor.DrainOverdue = false; f.Hold.Overdue = false })},
	{"never believes that the image is there", with(func(f *Facts) {
		if f.Image.Version == Complete {
			f.Image.Version = Pending
		}
	})},
	{"takes a snapshot that failed for a good one", with(func(f *Facts) {
		if f.Image.Snapshot == Broken {
			f.Image.Snapshot = Complete
		}
	})},
	{"leaves a stopped donor off", with(func(f *Facts) {
		if f.Donor.Power == Off && !f.MustBoot() {
			f.Donor.Power = On
		}
	})},
	{"waits for a stopped donor", replace(fail(DonorStopped), wait(ForDonor))},
	{"takes another holder's reservation away", with(func(f *Facts) {
		if f.Hold.Lock == Theirs {
			f.Hold.Lock = Overwritten
		}
	})},
	{"waits for a holder that there is not", with(func(f *Facts) {
		if f.Hold.Lock == Overwritten && f.isHeld() {
			f.Hold.Lock = Theirs
		}
	})},
	{
		"leaves the node after another client wrote over the reservation",
		with(func(f *Facts) { f.Hold.Restored = f.Hold.Restored || f.Hold.Lock == Overwritten }),
	},
	{"makes the pod before the Node knows of it", with(func(f *Facts) { f.Hold.Noted = true })},
	{"forgets the order with the record", with(func(f *Facts) {
		if f.Hold.Lock == Ours && !f.Hold.Recorded {
			f.Disk.Touched, f.Donor.MustLeaveBoot, f.Hold.Returning = false, false, false
		}
	})},
	{"serves in the boot that it went down in", with(func(f *Facts) { f.Donor.MustLeaveBoot = f.Disk.Touched })},
	{"serves with the disk that was touched", with(func(f *Facts) {
		if f.Failed || f.Deleting {
			f.Disk.Touched, f.Donor.MustLeaveBoot = false, false
		}
	})},
	{"begins again without its record", with(func(f *Facts) { f.Unrecorded = false })},
	{"makes the pod again for a Node that is gone", func(f Facts) Decision {
		if d := Next(f); d == fail(DonorGone) && f.Disk.Touched && f.Donor.Power == On {
			return do(Generalize)
		}
		return Next(f)
	}},
	{"fails without a reason", func(f Facts) Decision {
		d := Next(f)
		if d.Do == Fail {
			d.Why = ""
		}
		return d
	}},
}

// instantMutants are wrong about a snapshot that is taken but not complete.
var instantMutants = []mutant{
	{"takes every snapshot that is pending for one that is taken", with(func(f *Facts) {
		if f.Image.Snapshot == Pending {
			f.Image.Snapshot = Taken
		}
	})},
	{"holds the donor until its snapshot is complete", with(func(f *Facts) {
		if f.Image.Snapshot == Taken {
			f.Image.Snapshot = Pending
		}
	})},
	{"publishes what is only taken", with(func(f *Facts) {
		if f.Image.Snapshot == Taken {
			f.Image.Snapshot = Complete
		}
	})},
	{"removes a donor whose snapshot is only taken", func(f Facts) Decision {
		if d := Next(f); f.Image.Snapshot == Taken && f.mustRemove() && d.Why == ForSnapshot {
			return removeDonor(f)
		}
		return Next(f)
	}},
	{"leaves a snapshot behind that is only taken", func(f Facts) Decision {
		if d := Next(f); f.Image.Snapshot == Taken && d.Do == DeleteSnapshot {
			return do(Close)
		}
		return Next(f)
	}},
}

// leavingMutants are wrong about donors that leave.
var leavingMutants = []mutant{
	{"gives a donor back that cannot join", with(func(f *Facts) { f.Leaving.Replaced = f.Leaving.Replaced && !f.Disk.Touched })},
	{"removes a donor that was not touched", with(func(f *Facts) {
		if f.Leaving.Replaced && f.isHeld() && (f.Failed || f.Deleting) {
			f.Disk.Touched = true
		}
	})},
	{"removes a donor before its disk is copied", func(f Facts) Decision {
		if d := Next(f); f.Leaving.Replaced && d.Why == ForSnapshot {
			return do(Remove)
		}
		return Next(f)
	}},
	{"takes a donor before its replacement is Ready", with(func(f *Facts) {
		if f.Leaving.Replacement == ReplacementAwaited {
			f.Leaving.Replacement = ReplacementReady
		}
	})},
	{"does not have the pool grow first", with(func(f *Facts) { f.Leaving.GrowFirst = false })},
	{
		"grows the pool again while the replacement boots",
		instead(Wait, Enlarge, func(f Facts) bool { return f.Leaving.Replacement == ReplacementAwaited && f.isHeld() }),
	},
	{"does not fill the place", with(func(f *Facts) {
		if !f.Leaving.GrowFirst {
			f.Leaving.Replacement = NoReplacement
		}
	})},
	{"waits for a replacement for ever", with(func(f *Facts) {
		if f.Leaving.Replacement == ReplacementLate {
			f.Leaving.Replacement, f.Hold.Overdue = ReplacementAwaited, false
		}
	})},
	{"removes the Node while its machine is there", instead(Remove, DeleteNode, always)},
	{"deletes a Node that says it is Ready", func(f Facts) Decision {
		if d := Next(f); f.Donor.Power == InstanceGone && d.Why == ForRemoval {
			return do(DeleteNode)
		}
		return Next(f)
	}},
	{"leaves the place of a vanished instance", with(func(f *Facts) { f.Leaving.PlaceKept = false })},
	{"leaves the Node behind", instead(DeleteNode, Forget, always)},
	{"removes what another holder has", with(func(f *Facts) {
		if f.Leaving.Replaced && f.Disk.Touched && f.Hold.Lock == Theirs {
			f.Hold.Lock = Ours
		}
	})},
	{"removes what the Node does not know of", with(func(f *Facts) { f.Hold.Noted = f.Hold.Noted || f.Failed || f.Deleting })},
	{"leaves a donor that the cloud keeps", func(f Facts) Decision {
		if d := Next(f); d.Do == Remove && f.Hold.Overdue {
			return do(Release)
		}
		return Next(f)
	}},
}

// pioneerMutants are wrong about pioneers.
var pioneerMutants = []mutant{
	{"captures a pioneer without its patch", patchIs(PatchWanted, NoPatch)},
	{"captures a pioneer whose patch failed", patchIs(PatchFailed, PatchDone)},
	{"captures a pioneer without patches", patchIs(PatchCurrent, PatchDone)},
	{"patches for ever", patchIs(PatchDone, PatchUnderWay)},
	{"drains for the capture during the patch", patchIs(PatchUnderWay, PatchDone)},
	{"releases a node under patch", with(func(f *Facts) {
		if f.Failed || f.Deleting {
			f.Donor.Patch = NoPatch
		}
	})},
	{"begins a patch although it ends", func(f Facts) Decision {
		if f.Donor.Patch == PatchWanted && f.isHeld() && (f.Failed || f.Deleting) {
			return do(PatchDonor)
		}
		return Next(f)
	}},
	{"patches before the protection", instead(Protect, PatchDonor, func(f Facts) bool { return f.Donor.Patch == PatchWanted })},
	{"patches while another node is away", with(func(f *Facts) { f.Queued = f.Queued && f.Donor.Patch != PatchWanted })},
	{"patches before the replacement is Ready", with(func(f *Facts) {
		if f.Donor.Patch == PatchWanted && f.Leaving.Replacement == ReplacementAwaited {
			f.Leaving.Replacement = ReplacementReady
		}
	})},
	{"drains before it records the replacement", with(func(f *Facts) { f.Leaving.MustTakeOut = false })},
	{"copies a disk of another patch level", with(func(f *Facts) { f.Disk.LevelDiffers = false })},
}

// addedMutants are wrong about donors by which the pool has grown.
var addedMutants = []mutant{
	{"returns an added donor to service", with(func(f *Facts) { f.Leaving.Added = f.Leaving.Added && !f.Failed && !f.Deleting })},
	{"removes an added donor with its pods", with(func(f *Facts) {
		if f.Failed || f.Deleting {
			f.Donor.Cordoned, f.Donor.Drained = true, true
		}
	})},
	{"evicts the pods of a node that takes more pods", with(func(f *Facts) { f.Donor.Cordoned = f.Donor.Cordoned || f.Failed || f.Deleting })},
	{"waits for the pods of a node that is down for ever", with(func(f *Facts) { f.Hold.Overdue = f.Hold.Overdue && !f.Failed && !f.Deleting })},
	{"grows the pool again for a replacement", func(f Facts) Decision {
		if d := Next(f); d.Do == Protect {
			return do(Enlarge)
		}
		return Next(f)
	}},
	{"leaves an added node open until its patch", with(func(f *Facts) { f.Donor.Cordoned = f.Donor.Cordoned || f.Donor.Patch == PatchWanted })},
	{"changes an added node before its lock", with(func(f *Facts) {
		if f.Hold.Lock == Unlocked && !f.Failed && !f.Deleting {
			f.Hold.Lock = Ours
		}
	})},
	{"patches an added node that is not Ready", with(func(f *Facts) {
		if f.Donor.Patch == PatchWanted && f.Donor.Node == NodeNotReady {
			f.Donor.Node = NodeReady
		}
	})},
	{"patches an added node without a look", with(func(f *Facts) {
		if f.Leaving.Added && f.Donor.Patch == PatchWanted && f.Disk.Pod == NoPod {
			f.Disk.Pod = PodLooked
		}
	})},
	{"patches an added node although the look said no", with(func(f *Facts) {
		if f.Leaving.Added && f.Donor.Patch == PatchWanted && f.Disk.Pod == PodFailed {
			f.Disk.Pod = PodLooked
		}
	})},
	{"leaves the place of an added donor", with(func(f *Facts) { f.Leaving.PlaceKept = false })},
	{"keeps an added donor without patches", func(f Facts) Decision {
		if d := Next(f); f.Failed && f.Donor.Patch == PatchCurrent && d.Do == Remove {
			return do(Forget)
		}
		return Next(f)
	}},
}

// patchIs takes one state of the patch for another state.
func patchIs(is, taken Patch) planner {
	return with(func(f *Facts) {
		if f.Donor.Patch == is {
			f.Donor.Patch = taken
		}
	})
}

func always(Facts) bool { return true }

// with plans from changed facts: a planner without a fact.
func with(change func(*Facts)) planner {
	return func(f Facts) Decision { change(&f); return Next(f) }
}

// instead does another action where the right one is due.
func instead(due, wrong Action, when func(Facts) bool) planner {
	return func(f Facts) Decision {
		if d := Next(f); d.Do == due && when(f) {
			if wrong == Wait {
				return wait(ForReady)
			}
			return do(wrong)
		}
		return Next(f)
	}
}

func replace(due, wrong Decision) planner {
	return func(f Facts) Decision {
		if d := Next(f); d == due {
			return wrong
		}
		return Next(f)
	}
}

func oursOnlyIfRecorded(f Facts) Lock {
	if f.Hold.Recorded && (f.Failed || f.Image.Snapshot == Complete) && f.Hold.Lock == Ours {
		return Unlocked
	}
	return f.Hold.Lock
}

// TestWrongPlannersAreCaught tests the properties: each mutant breaks a property in a reachable world.
func TestWrongPlannersAreCaught(t *testing.T) {
	caughtBy := map[string]int{}
	for _, course := range []struct {
		starts  []model
		mutants []mutant
	}{{returningDonors(), mutants}, {leavingDonors(), leavingMutants}, {append(instantDonors(), returningDonors()...), instantMutants}, {pioneers(), pioneerMutants}, {addedDonors(), addedMutants}, {publishedVersions(), trialMutants}} {
		for _, m := range course.mutants {
			t.Run(m.name, func(t *testing.T) {
				e := explore(m.next, WithoutCloud, slices.Clone(course.starts), adversities(true))
				if e.bad == nil {
					t.Fatal("no property noticed")
				}
				caughtBy[e.bad.property]++
				t.Logf("caught after %d adverse events by: %s", e.adverse, e.bad.property)
			})
		}
	}
	t.Logf("%d wrong planners, caught by %d properties",
		len(mutants)+len(leavingMutants)+len(instantMutants)+len(pioneerMutants)+len(addedMutants)+len(trialMutants), len(caughtBy))
}
