package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/plantest"
)

// workWorld is a capture by copy: the facts, and the truth that no planner sees.
type workWorld struct {
	f Facts
	// said is the signed report of the pod on the workshop.
	said report
	// adopted is the truth of PodKnown.
	adopted bool
	// flushed: the copy holds the last flush of the donor. torn: a package was half installed in the copy. The volume inherits both.
	flushed, torn bool
	// rots: the next copy will be torn. slow: the next acceptance of the cloud comes too late. dull: the next snapshot holds an
	// earlier state of the disk.
	rots, slow, dull bool
	// clean: the volume is generalized, and no machine has written to it since.
	clean, cleanSnapshot, cleanImage bool
	// stuck: the workshop's Node will not be Ready. hung: neither donor nor pods move again. bootedWith: the workshop booted while
	// the volume was attached, on purpose. second: it has rebooted then, and may run the donor's system.
	stuck, hung, bootedWith, second bool
	// silent: the workshop has crashed and may boot from the volume, and its Node is still Ready.
	silent bool
	// copies and workshops that were begun.
	copies, workshops int8
	// onDonor: the pod is on the donor.
	onDonor bool
	// patchEnd is the result of a pioneer's patch. patched is the truth of PatchDone, and differs of LevelDiffers.
	patchEnd          Patch
	patched, differs  bool
	closed, succeeded bool
}

type report string

const (
	saidNothing  report = ""
	saidProof    report = "proof"
	saidUnusable report = "unusable"
)

// mostCopies and mostWorkshops are the numbers of copies and of workshops of one capture in the model.
const mostCopies, mostWorkshops = 3, 2

func copyStarts() []workWorld {
	w := workWorld{f: Facts{
		Donor:     DonorFacts{Node: NodeReady, Power: On},
		Promotion: PromotionFacts{MustRetire: true},
		Copy:      CopyFacts{Wanted: true},
	}}
	refused := w
	refused.f.Refused = true
	return []workWorld{w.derived(), refused.derived()}
}

// copiedPioneers are captures by copy that patch their donor first.
func copiedPioneers() []workWorld {
	w := copyStarts()[0]
	w.f.Donor.Patch, w.patchEnd = PatchWanted, PatchDone
	queued := w
	queued.f.Queued = true
	return []workWorld{w.derived(), queued.derived()}
}

// patch makes one step of the patch: begin with a drain, or the end.
func (w workWorld) patch() workWorld {
	f := &w.f
	switch {
	case f.Donor.Patch == PatchWanted:
		f.Donor.Patch, f.Donor.Cordoned, f.Donor.Drained = PatchUnderWay, true, true
	case f.ends(), f.Hold.Lock != Ours, f.Donor.Node == NodeGone:
		f.Donor.Patch = PatchFailed
	default:
		f.Donor.Patch = w.patchEnd
	}
	if w.patched = f.Donor.Patch == PatchDone; w.patched {
		f.Donor.Cordoned, f.Donor.Drained = false, false
	}
	return w
}

// derived sets the facts that follow from other facts.
func (w workWorld) derived() workWorld {
	f := &w.f
	f.Disk.PodKnown = w.adopted && f.Disk.Pod != NoPod
	f.Disk.Reported = w.adopted && f.Disk.Order && w.said != saidNothing && !f.Disk.Proven && !f.Copy.Unusable
	f.Copy.Spent, f.Copy.LastWorkshop = w.copies >= mostCopies, w.workshops >= mostWorkshops
	f.Copy.Heard = f.Copy.Heard && f.Copy.Volume == VolumeFree
	if f.Disk.Pod == NoPod && f.Copy.Quiesce != NoQuiesce {
		f.Copy.Quiesce = NoQuiesce
	}
	f.Disk.LevelDiffers = w.differs && w.patched && f.Disk.Proven
	f.Donor.Cordoned = f.Donor.Cordoned && f.Donor.Node != NodeGone
	f.Hold.Noted, f.Hold.ProtectionRestored = true, true
	f.Hold.Restored = !f.Donor.Cordoned && (f.Donor.Patch == NoPatch || f.Hold.Lock == Unlocked)
	return w
}

func (w workWorld) effect(d Decision) workWorld {
	f := &w.f
	switch d.Do {
	case Refuse, Close:
		w.closed = true
	case Succeed:
		w.closed, w.succeeded = true, true
	case Fail:
		f.Failed = true
	case Look:
		f.Disk.Pod, w.onDonor = PodActive, true
	case Reserve, Relock:
		f.Hold.Lock = Ours
	case Record:
		f.Hold.Recorded = true
	case Forget:
		f.Hold.Lock, f.Hold.Recorded = Unlocked, false
	case Release:
		f.Hold.Lock, f.Hold.Recorded, f.Donor.Cordoned, f.Donor.Drained = Unlocked, false, false, false
	case PatchDonor:
		w = w.patch()
	case BeginWorkshop:
		if f.Copy.Workshop == NoWorkshop {
			f.Copy.Workshop, w.workshops = WorkshopDecided, w.workshops+1
			if f.Disk.Touched {
				f.Disk.Touched, f.Disk.Proven, f.Copy.Unusable = false, false, false
			}
		} else {
			f.Copy.Workshop = WorkshopMaking
			w.bootedWith = w.bootedWith || f.Copy.Volume != NoVolume
		}
	case EndWorkshop:
		f.Copy.Workshop = WorkshopEnding
	case QuiesceDonor:
		f.Disk.Order, f.Disk.Touched, f.Disk.Pod, f.Copy.Quiesce, w.onDonor = true, false, PodActive, QuiesceWaits, true
		f.Copy.Accepted, f.Copy.Unusable, w.copies = false, false, w.copies+1
		w.adopted, w.said = false, saidNothing
	case CopyRunning:
		f.Copy.Raw, f.Copy.Accepted = Pending, !w.slow
		w.flushed, w.torn = f.Copy.Quiesce == QuiesceReady && !w.slow && !w.dull, w.rots
		w.slow, w.dull, w.rots = false, false, false
	case DeleteRawCopy:
		f.Copy.Raw = Deleting
	case AttachVolume:
		w.bootedWith = w.bootedWith || f.Copy.Workshop == WorkshopMaking
		f.Copy.Volume, w.clean = VolumeChanging, false
	case DetachVolume:
		f.Copy.Volume = VolumeChanging
	case DeleteVolume:
		f.Copy.Volume, w.clean = VolumeDeleting, false
	case Order:
		f.Disk.Order, f.Disk.Touched = true, true
		w.adopted, w.said = false, saidNothing
	case Generalize:
		f.Disk.Pod, w.onDonor, w.adopted, w.said = PodActive, false, false, saidNothing
	case Adopt:
		w.adopted = true
	case Believe:
		f.Disk.Proven, f.Copy.Unusable = w.said == saidProof, w.said == saidUnusable
	case DeletePod:
		f.Disk.Pod = NoPod
	case DeleteOrder:
		f.Disk.Order = false
	case TakeSnapshot:
		f.Image.Snapshot, w.cleanSnapshot = Pending, w.clean
	case DeleteSnapshot:
		f.Image.Snapshot = Deleting
	case Publish:
		f.Image.Version, w.cleanImage = Pending, w.cleanSnapshot
	case DeleteImage:
		f.Image.Version = Deleting
	case SaveRecipe:
		f.Promotion.Saved = true
	case Promote:
		f.Promotion.Recipe = RecipeHere
	case Retire:
		f.Promotion.MustRetire = false
	}
	return w.derived()
}

// cut has the worlds after a crash within an action of two effects.
func (w workWorld) cut(d Decision) []workWorld {
	if d.Do != CopyRunning {
		return nil
	}
	after, over := w.effect(d), w
	after.f.Copy.Accepted = false // the cloud has the snapshot, and the record does not say so
	over.f.Copy.Quiesce = QuiesceOver
	return []workWorld{after.derived(), over.derived()}
}

func (w workWorld) progress() workWorld {
	f := &w.f
	working := f.Disk.Pod == PodActive && !w.onDonor
	switch {
	case f.Disk.Pod == PodActive && w.onDonor && !f.isHeld():
		f.Disk.Pod = PodLooked
	case f.Copy.Quiesce == QuiesceWaits && f.Donor.Node == NodeGone:
		f.Copy.Quiesce = QuiesceFailed
	case f.Copy.Quiesce == QuiesceWaits && !w.hung && w.adopted:
		f.Copy.Quiesce = QuiesceReady
	case f.Copy.Workshop == WorkshopMaking && !w.stuck:
		f.Copy.Workshop = WorkshopReady
	case f.Copy.Workshop == WorkshopMaking:
		f.Copy.Workshop = WorkshopLate
	case (f.Copy.Workshop == WorkshopEnding || f.Copy.Workshop == WorkshopLost) && f.Copy.Volume == VolumeAttached:
		f.Copy.Volume, w.clean = VolumeFree, false
	case f.Copy.Workshop == WorkshopEnding:
		f.Copy.Workshop, w.stuck, w.second = NoWorkshop, false, false
		if f.Disk.Pod != NoPod && !w.onDonor {
			f.Disk.Pod = NoPod
		}
	case f.Copy.Raw == Pending, f.Copy.Raw == Taken:
		f.Copy.Raw = Complete
	case f.Copy.Raw == Deleting:
		f.Copy.Raw = Absent
	case f.Copy.Volume == VolumeDeleting:
		f.Copy.Volume = NoVolume
	case f.Copy.Volume == VolumeChanging && f.Disk.Proven:
		f.Copy.Volume = VolumeFree
	case f.Copy.Volume == VolumeFree && f.Disk.Proven && f.Copy.Workshop == WorkshopReady && !w.silent && !f.Copy.Heard:
		f.Copy.Heard = true
	case w.silent:
		f.Copy.Workshop, w.silent = WorkshopAway, false
	case f.Copy.Volume == VolumeChanging:
		f.Copy.Volume = VolumeAttached
	case working && w.adopted && !w.hung && w.said == saidNothing && f.Disk.Order && f.Copy.Volume == VolumeAttached && f.Copy.Workshop == WorkshopReady:
		w.said = saidProof
		if w.clean = w.flushed && !w.torn; !w.clean {
			w.said = saidUnusable
		}
	case f.Image.Snapshot == Pending:
		f.Image.Snapshot = Taken
	case f.Image.Snapshot == Taken:
		f.Image.Snapshot = Complete
	case f.Image.Snapshot == Deleting:
		f.Image.Snapshot = Absent
	case f.Image.Version == Pending:
		f.Image.Version = Complete
	case f.Image.Version == Deleting:
		f.Image.Version = Absent
	case f.Hold.Lock == Theirs:
		f.Hold.Lock = Unlocked
	case f.Queued:
		f.Queued = false
	case f.Donor.Node == NodeNotReady && !w.hung:
		f.Donor.Node = NodeReady
	}
	return w.derived()
}

// later is the world after a long time: a capture that does not end exceeds its deadline.
func (w workWorld) later() workWorld {
	w.f.Hold.Overdue = w.f.isHeld()
	return w.derived()
}

func (w workWorld) adverse() []workWorld {
	var out []workWorld
	add := func(change func(*workWorld)) {
		next := w
		change(&next)
		if next = next.derived(); next != w {
			out = append(out, next)
		}
	}
	add(func(n *workWorld) { n.f.Deleting = true })
	add(func(n *workWorld) { n.f.Failed = false })
	add(func(n *workWorld) { n.f.Queued = true })
	add(func(n *workWorld) { n.f.Donor.Node = NodeNotReady })
	add(func(n *workWorld) { n.f.Donor.Node, n.f.Donor.Power = NodeGone, InstanceGone })
	for _, over := range []Lock{Unlocked, Overwritten, Theirs} {
		add(func(n *workWorld) {
			if n.f.Hold.Lock == Ours && (over == Unlocked || n.f.Hold.Recorded) {
				n.f.Hold.Lock = over
			}
		})
	}
	if w.f.Donor.Patch != NoPatch {
		for _, end := range []Patch{PatchFailed, PatchCurrent} {
			add(func(n *workWorld) { n.patchEnd = end })
		}
		add(func(n *workWorld) { n.differs = true })
		add(func(n *workWorld) { n.f.Donor.Power = Off }) // another client stops the pioneer
	}
	add(func(n *workWorld) { n.hung = true })
	add(func(n *workWorld) { n.slow = true })
	add(func(n *workWorld) { n.dull = true })
	add(func(n *workWorld) { n.rots = true })
	add(func(n *workWorld) { n.stuck = n.f.Copy.Workshop == WorkshopMaking })
	add(func(n *workWorld) {
		if n.f.Copy.Workshop == WorkshopMaking || n.f.Copy.Workshop == WorkshopReady {
			n.f.Copy.Workshop, n.clean = WorkshopLost, false
		}
	})
	add(func(n *workWorld) {
		if n.f.Copy.Workshop == WorkshopMaking && n.f.Copy.Volume == NoVolume {
			n.f.Copy.Workshop = WorkshopFailed
		}
	})
	add(func(n *workWorld) { // it reboots while the volume is attached, or about to be
		if n.f.Copy.Workshop == WorkshopReady && (n.f.Copy.Volume == VolumeAttached || n.f.Copy.Volume == VolumeChanging) {
			n.f.Copy.Workshop, n.second, n.clean = WorkshopAway, true, false
		}
	})
	add(func(n *workWorld) { // it crashes, and boots from the volume before the volume is detached
		if n.f.Copy.Workshop == WorkshopReady && (n.f.Copy.Volume == VolumeAttached || n.f.Copy.Volume == VolumeChanging) {
			n.silent, n.clean = true, false
		}
	})
	add(func(n *workWorld) { // its Node is not Ready for a moment
		if n.f.Copy.Workshop == WorkshopReady && n.f.Copy.Volume != NoVolume {
			n.f.Copy.Workshop = WorkshopMaking
		}
	})
	add(func(n *workWorld) {
		if n.f.Copy.Quiesce == QuiesceWaits {
			n.f.Copy.Quiesce = QuiesceTooBusy
		}
	})
	add(func(n *workWorld) {
		if n.f.Copy.Quiesce != NoQuiesce {
			n.f.Copy.Quiesce = QuiesceFailed
		}
	})
	add(func(n *workWorld) {
		if n.f.Disk.Pod == PodActive && n.f.Copy.Quiesce == NoQuiesce {
			n.f.Disk.Pod = PodFailed
		}
	})
	add(func(n *workWorld) { n.f.Disk.Pod = NoPod })
	add(func(n *workWorld) { n.f.Disk.Order = false })
	add(func(n *workWorld) {
		if own(n.f.Copy.Raw) && n.f.Copy.Raw != Deleting {
			n.f.Copy.Raw = Broken
		}
	})
	add(func(n *workWorld) {
		if own(n.f.Copy.Raw) {
			n.f.Copy.Raw = Deleting
		}
	})
	add(func(n *workWorld) { // a client deletes the volume
		if n.f.Copy.Volume == VolumeFree || n.f.Copy.Volume == VolumeChanging {
			n.f.Copy.Volume, n.clean = VolumeBroken, false
		}
	})
	add(func(n *workWorld) {
		if n.f.Copy.Volume == VolumeChanging && !n.f.Disk.Proven {
			n.f.Copy.Volume = VolumeFree // made, and not attached yet
		}
	})
	add(func(n *workWorld) {
		if n.f.Copy.Raw == Absent && !n.f.hasRawCopy() {
			n.f.Copy.Raw = Foreign
		}
	})
	add(func(n *workWorld) {
		if n.f.Image.Snapshot == Pending || n.f.Image.Snapshot == Taken {
			n.f.Image.Snapshot = Broken
		}
	})
	add(func(n *workWorld) {
		if n.f.Image.Version == Pending {
			n.f.Image.Version = Broken
		}
	})
	return out
}

func (w workWorld) emptied() bool {
	f := w.f
	return f.Copy.Workshop == NoWorkshop && f.Copy.Volume == NoVolume && !own(f.Copy.Raw) && !f.isHeld() && f.Disk.Pod == NoPod && !f.Disk.Order &&
		!own(f.Image.Snapshot)
}

// ofDonor are the actions that take a donor out of service, or change its disk or its machine. ofPioneer are those among them for
// which there is a reason in a pioneer.
const (
	ofDonor   = "|Cordon|Evict|Protect|Unprotect|PatchDonor|Stop|Start|Return|Serve|Release|"
	ofPioneer = "|PatchDonor|Release|"
)

var copyRules = []plantest.Rule[workWorld, Action, Reason]{
	plantest.That("the donor stays in service, and its disk as it is", "", func(w workWorld, d Decision) bool {
		does := "|" + string(d.Do) + "|"
		return !strings.Contains(ofDonor, does) || w.f.Donor.Patch != NoPatch && strings.Contains(ofPioneer, does)
	}),
	plantest.That("a patch begins in its turn, reserved, without a pod, and before any copy", "|PatchDonor|", func(w workWorld, _ Decision) bool {
		f := w.f
		begins := f.Hold.Lock == Ours && f.Hold.Recorded && !f.Queued && f.Disk.Pod == NoPod && !f.ends()
		return f.Donor.Patch == PatchUnderWay || f.Donor.Patch == PatchWanted && begins && !f.hasRawCopy() && f.Copy.Workshop == NoWorkshop
	}),
	plantest.That("a pioneer is copied with its patches, and in service", "|BeginWorkshop|QuiesceDonor|CopyRunning|", func(w workWorld, _ Decision) bool {
		return w.f.Donor.Patch == NoPatch || w.patched && !w.f.Donor.Cordoned && !w.f.Donor.Drained
	}),
	plantest.That("a patch is ended before the release", "|Release|Forget|", func(w workWorld, _ Decision) bool {
		return w.f.Donor.Patch != PatchUnderWay
	}),
	plantest.That("a pioneer is released to service", "|Forget|Close|Succeed|", func(w workWorld, _ Decision) bool {
		return !w.f.Donor.Cordoned || w.f.Donor.Power == InstanceGone || w.f.Hold.Lock == Theirs
	}),
	plantest.That("only a disk with the watched patches becomes a version", "|TakeSnapshot|", func(w workWorld, _ Decision) bool {
		return !w.f.Disk.LevelDiffers
	}),
	plantest.That("a disk is generalized only on the workshop, attached, from an accepted copy", "|NodeOrder|Generalize|", func(w workWorld, _ Decision) bool {
		return w.f.Copy.Volume == VolumeAttached && w.f.Copy.Workshop == WorkshopReady && w.f.Copy.Accepted && !w.f.Copy.Unusable
	}),
	plantest.That("the disk is copied on word of the pod, for a workshop that is Ready", "|CopyRunning|", func(w workWorld, _ Decision) bool {
		return w.f.Copy.Quiesce == QuiesceReady && w.f.Copy.Workshop == WorkshopReady && w.f.Hold.Lock == Ours && w.f.Copy.Raw == Absent && w.f.Copy.Volume == NoVolume
	}),
	plantest.That("what cannot come is not awaited", "|Wait|", func(w workWorld, d Decision) bool {
		f := w.f
		if f.ends() || f.hasCopy() || f.hasVersion() || f.Unrecorded || !f.isHeld() {
			return true
		}
		lost := f.Copy.Workshop == WorkshopLate || f.Copy.Workshop == WorkshopFailed || f.isWorkshopLost()
		failed := f.Copy.Quiesce == QuiesceTooBusy || f.Copy.Quiesce == QuiesceFailed
		return !lost && !failed && (f.Copy.Raw != Broken || d.Why == ForWorkshop) || f.Copy.Volume == VolumeDeleting
	}),
	plantest.That("a report that cannot come is not awaited", "|Wait|Generalize|", func(w workWorld, d Decision) bool {
		return d.Do == Wait && d.Why != ForProof || w.f.Disk.Order
	}),
	plantest.That("only a donor that is there is copied", "|QuiesceDonor|CopyRunning|", func(w workWorld, _ Decision) bool {
		return w.f.Donor.Node != NodeGone && w.f.Donor.Power != InstanceGone
	}),
	plantest.That("one copy at a time, and a few in all", "|QuiesceDonor|", func(w workWorld, _ Decision) bool {
		return !w.f.hasRawCopy() && w.copies < mostCopies && w.f.Disk.Pod == NoPod && w.f.Hold.Lock == Ours
	}),
	plantest.That("a volume is made once, of a complete and accepted copy", "|AttachVolume|", func(w workWorld, _ Decision) bool {
		return (w.f.Copy.Volume == NoVolume || w.f.Copy.Volume == VolumeFree) && w.f.Copy.Raw == Complete && w.f.Copy.Accepted
	}),
	plantest.That("a volume is attached to a running workshop only", "|AttachVolume|", func(w workWorld, _ Decision) bool {
		return w.f.Copy.Workshop == WorkshopReady && !w.f.Disk.Proven
	}),
	plantest.That("no machine boots with the copy", "", func(w workWorld, _ Decision) bool { return !w.bootedWith }),
	plantest.That("a workshop that may run the donor's system only ends", "", func(w workWorld, d Decision) bool {
		return !w.second || w.f.Copy.Workshop == WorkshopEnding || slices.Contains([]Action{Relock, Record, Fail, DeletePod, EndWorkshop}, d.Do)
	}),
	plantest.That("the raw copy goes as soon as the volume is attached", "|NodeOrder|Generalize|TakeSnapshot|", func(w workWorld, _ Decision) bool {
		return w.f.Copy.Raw == Absent || w.f.Copy.Raw == Deleting || w.f.Copy.Raw == Foreign
	}),
	plantest.That("a copy in use is not removed", "|DeleteRawCopy|DeleteVolume|", func(w workWorld, d Decision) bool {
		f := w.f
		useless := f.Failed || f.Deleting || !f.Copy.Accepted || f.Copy.Unusable || f.Copy.Raw == Broken || f.hasCopy() || f.hasVersion() ||
			f.Copy.Volume == VolumeBroken || f.Copy.Volume == VolumeDeleting
		made := d.Do == DeleteRawCopy && f.Copy.Volume == VolumeAttached
		lost := (!own(f.Copy.Raw) || f.Copy.Raw == Deleting) && !f.Disk.Proven
		gone := d.Do == DeleteVolume && (lost || f.Copy.Workshop == NoWorkshop)
		return f.Copy.Raw != Foreign && (useless || made || gone) || d.Do == DeleteVolume && useless
	}),
	plantest.That("only a proven disk that no machine can write is copied", "|TakeSnapshot|", func(w workWorld, _ Decision) bool {
		return w.f.Copy.Volume == VolumeFree && w.clean && w.f.Disk.Proven && w.f.Disk.Pod == NoPod && !w.f.Disk.Order
	}),
	plantest.That("only a clean copy is published", "|Publish|", func(w workWorld, _ Decision) bool { return w.cleanSnapshot && w.f.Image.Snapshot == Complete }),
	plantest.That("the workshop ends before a version is made", "|Publish|Promote|", func(w workWorld, _ Decision) bool {
		return w.f.Copy.Workshop == NoWorkshop && w.f.Copy.Volume == NoVolume
	}),
	plantest.That("a recipe names only a clean version", "|Promote|", func(w workWorld, _ Decision) bool { return w.cleanImage && w.f.Image.Version == Complete }),
	plantest.That("the workshop stays until the disk is proven and copied", "|EndWorkshop|", func(w workWorld, _ Decision) bool {
		ends := w.f.ends() || w.f.Image.Snapshot == Taken || w.f.Image.Snapshot == Complete || w.f.hasVersion()
		return ends || w.f.isWorkshopLost() || w.f.Copy.Workshop == WorkshopEnding
	}),
	plantest.That("a lost workshop costs the capture only after a few others", "|Fail|", func(w workWorld, d Decision) bool {
		return d.Why != WorkshopRestarted && (d.Why != WorkshopGone || w.f.Copy.Workshop == WorkshopFailed) || w.workshops == mostWorkshops
	}),
	plantest.That("one workshop", "|BeginWorkshop|", func(w workWorld, _ Decision) bool {
		begins := w.f.Copy.Workshop == NoWorkshop && w.workshops < mostWorkshops && w.f.Disk.Pod == NoPod && !w.f.Disk.Order
		return (begins || w.f.Copy.Workshop == WorkshopDecided) && w.f.Hold.Recorded && w.f.Copy.Volume == NoVolume
	}),
	plantest.That("the donor is held until the copy is proven or given up", "|Forget|", func(w workWorld, _ Decision) bool {
		return (w.f.ends() || w.f.hasCopy() || w.f.hasVersion()) && (!w.onDonor || w.f.Disk.Pod == NoPod)
	}),
	plantest.That("nothing is left behind", "|Close|Succeed|Refuse|", func(w workWorld, d Decision) bool {
		return w.emptied() || d.Do == Refuse && w.f.Copy.Workshop == NoWorkshop && !w.f.isHeld()
	}),
	plantest.That("a success is a promoted version", "|Succeed|", func(w workWorld, _ Decision) bool { return w.f.Promotion.Recipe == RecipeHere && w.cleanImage }),
	plantest.That("a capture gives up after the last copy, or without its proven disk", "|Fail|", func(w workWorld, d Decision) bool {
		return d.Why != CopyUnusable || w.copies == mostCopies || w.f.Disk.Proven && w.f.Copy.Volume != VolumeAttached && w.f.Copy.Volume != VolumeFree
	}),
	plantest.That("a failure has a reason, once", "|Fail|", func(w workWorld, d Decision) bool { return d.Why != "" && !w.f.Failed }),
}

func copyModel(starts []workWorld) plantest.Model[workWorld, Facts, Action, Reason] {
	return plantest.Model[workWorld, Facts, Action, Reason]{
		Starts: starts, Facts: func(w workWorld) Facts { return w.f }, Effect: workWorld.effect, Cut: workWorld.cut,
		Progress: workWorld.progress, Later: workWorld.later, Adverse: workWorld.adverse, Closed: func(w workWorld) bool { return w.closed },
		Rules: plantest.Always(copyRules), MaxSteps: 200,
	}
}

func exploredCopies(starts []workWorld, adversities int) func(plantest.Planner[Facts, Action, Reason]) *plantest.Exploration[workWorld, Facts, Action, Reason] {
	return func(next plantest.Planner[Facts, Action, Reason]) *plantest.Exploration[workWorld, Facts, Action, Reason] {
		m := copyModel(starts)
		return m.Explore(next, adversities)
	}
}

func TestEveryReachableCopy(t *testing.T) {
	for name, starts := range map[string][]workWorld{"donors": copyStarts(), "pioneers": copiedPioneers()} {
		e := exploredCopies(starts, adversities(testing.Short()))(Next)
		if e.Bad != nil {
			t.Fatal(e.Bad)
		}
		t.Logf("%s: %d worlds", name, e.Worlds)
	}
}

// TestCourseOfCopy: what happens if nothing goes wrong.
func TestCourseOfCopy(t *testing.T) {
	const patches = "Wait: Turn, Look, Wait: Look, Reserve, Record, DeletePod, PatchDonor, "
	const want = "BeginWorkshop, Wait: Workshop, QuiesceDonor, Adopt, Wait: Quiet, CopyRunning, DeletePod, DeleteOrder, " +
		"Wait: Snapshot, AttachVolume, Wait: Volume, DeleteRawCopy, NodeOrder, Generalize, Adopt, Wait: Proof, Believe, DeletePod, " +
		"DeleteOrder, DetachVolume, Wait: Volume, TakeSnapshot, Wait: Snapshot, EndWorkshop, DeleteVolume, Wait: Deletion, Forget, Wait: Snapshot, Publish, Wait: Image, DeleteSnapshot, SaveRecipe, " +
		"Promote, Retire, Wait: Deletion, Succeed"
	for _, test := range []struct {
		start workWorld
		want  string
	}{
		{copyStarts()[0], "Look, Wait: Look, Reserve, Record, DeletePod, " + want},
		{copiedPioneers()[1], patches + strings.Replace(want, "Forget", "Release", 1)},
	} {
		m := copyModel([]workWorld{test.start})
		said, end := m.Course(Next, test.start)
		if said != test.want {
			t.Errorf("course:\n%s\nwant:\n%s", said, test.want)
		}
		if !end.succeeded {
			t.Errorf("the capture ends with %+v", end)
		}
	}
}

// TestWrongCopiers: each breaks a rule in a reachable world.
func TestWrongCopiers(t *testing.T) {
	without := func(change func(*Facts)) plantest.Planner[Facts, Action, Reason] { return plantest.With(Next, change) }
	instead := func(due Action, wrong Decision) plantest.Planner[Facts, Action, Reason] {
		return plantest.Instead(Next, due, wrong)
	}
	where := func(is func(Facts, Decision) bool, wrong Decision) plantest.Planner[Facts, Action, Reason] {
		return plantest.Where(Next, is, wrong)
	}
	wrong := plantest.Wrong[Facts, Action, Reason]{
		"cordons the donor":                     instead(QuiesceDonor, do(Cordon)),
		"stops the donor":                       instead(CopyRunning, do(Stop)),
		"generalizes in place":                  without(func(f *Facts) { f.Copy.Wanted = false }),
		"copies without the pod's word":         instead(QuiesceDonor, do(CopyRunning)),
		"does not wait for quiet":               where(func(_ Facts, d Decision) bool { return d.Why == ForQuiet }, do(CopyRunning)),
		"copies before the workshop":            instead(BeginWorkshop, do(QuiesceDonor)),
		"does not wait for the workshop":        without(func(f *Facts) { f.Copy.Workshop = ready(f.Copy.Workshop) }),
		"attaches at launch":                    where(func(f Facts, d Decision) bool { return d.Do == BeginWorkshop && f.Copy.Workshop == WorkshopDecided }, do(AttachVolume)),
		"boots the copy":                        instead(DetachVolume, do(BeginWorkshop)),
		"believes a late acceptance":            without(func(f *Facts) { f.Copy.Accepted = true }),
		"never accepts":                         without(func(f *Facts) { f.Copy.Accepted = false }),
		"takes an unusable copy":                without(func(f *Facts) { f.Copy.Unusable = false }),
		"copies for ever":                       without(func(f *Facts) { f.Copy.Spent = false }),
		"gives up at once":                      without(func(f *Facts) { f.Copy.Spent = true }),
		"takes a foreign snapshot":              without(func(f *Facts) { f.Copy.Raw = ours(f.Copy.Raw) }),
		"keeps the raw copy":                    where(func(f Facts, d Decision) bool { return d.Do == DeleteRawCopy && !f.ends() }, do(AttachVolume)),
		"removes the raw copy too early":        instead(AttachVolume, do(DeleteRawCopy)),
		"makes a volume of a pending copy":      where(func(f Facts, d Decision) bool { return d.Why == ForSnapshot && f.Copy.Raw == Pending }, do(AttachVolume)),
		"leaves the workshop":                   without(func(f *Facts) { f.Copy.Workshop = gone(*f) }),
		"ends the workshop too early":           instead(DetachVolume, do(EndWorkshop)),
		"leaves the volume":                     where(func(f Facts, d Decision) bool { return d.Do == DeleteVolume }, do(Forget)),
		"publishes without a proof":             without(func(f *Facts) { f.Disk.Proven = f.Disk.Proven || f.Disk.Touched }),
		"copies a volume that a machine writes": without(func(f *Facts) { f.Copy.Volume = free(*f) }),
		"publishes a pending copy":              where(func(f Facts, d Decision) bool { return d.Why == ForSnapshot && f.hasCopy() }, do(Publish)),
		"holds the donor for ever":              instead(Forget, do(Publish)),
		"lets the donor go too early":           instead(Believe, do(Forget)),
		"leaves the pod on the donor":           without(func(f *Facts) { f.Disk.Pod = noPodOnEnd(*f) }),
		"leaves the order":                      instead(DeleteOrder, wait(ForProof)),
		"ignores a lost reservation":            without(func(f *Facts) { f.Hold.Lock = held(*f) }),
		"fails without a reason":                plantest.Mute(Next),
		"ignores a broken copy":                 without(func(f *Facts) { f.Copy.Raw = whole(f.Copy.Raw) }),
		"ignores a broken version":              without(func(f *Facts) { f.Image.Version = whole(f.Image.Version) }),
		"opens two workshops":                   where(func(f Facts, d Decision) bool { return d.Why == ForWorkshop }, do(BeginWorkshop)),
		"waits for a workshop that never joins": without(func(f *Facts) {
			if f.Copy.Workshop == WorkshopLate {
				f.Copy.Workshop = WorkshopMaking
			}
		}),
		"waits for a workshop that is lost": without(func(f *Facts) {
			if f.Copy.Workshop == WorkshopLost {
				f.Copy.Workshop = WorkshopMaking
			}
		}),
		"gives up with the first workshop":               without(func(f *Facts) { f.Copy.LastWorkshop = true }),
		"copies the disk of a workshop that has crashed": without(func(f *Facts) { f.Copy.Heard = true }),
		"makes workshops for ever":                       without(func(f *Facts) { f.Copy.LastWorkshop = false }),
		"keeps the disk of a lost workshop": where(func(f Facts, d Decision) bool {
			return d.Do == DeleteVolume && f.Copy.Workshop == NoWorkshop && !f.ends() && !f.hasCopy()
		}, do(BeginWorkshop)),
		"keeps a lost workshop": where(func(f Facts, d Decision) bool { return d.Do == EndWorkshop && f.isWorkshopLost() }, do(BeginWorkshop)),
		"copies again for a fresh workshop": where(func(f Facts, d Decision) bool {
			return d.Do == BeginWorkshop && f.Copy.Workshop == NoWorkshop && f.Copy.Raw == Complete
		}, do(DeleteRawCopy)),
		"believes what was proven on a lost workshop": without(func(f *Facts) {
			if f.isWorkshopLost() && f.Disk.Proven {
				f.Copy.Workshop = WorkshopReady
			}
		}),
		"trusts a workshop that has rebooted": without(func(f *Facts) {
			if f.Copy.Workshop == WorkshopAway {
				f.Copy.Workshop = WorkshopReady
			}
		}),
		"waits for a workshop that has rebooted": without(func(f *Facts) {
			if f.Copy.Workshop == WorkshopAway {
				f.Copy.Workshop = WorkshopMaking
			}
		}),
		"trusts a rebooted workshop with a proven disk": without(func(f *Facts) {
			if f.Copy.Workshop == WorkshopAway && f.Disk.Proven {
				f.Copy.Workshop = WorkshopReady
			}
		}),
		"waits for a busy donor": without(func(f *Facts) {
			if f.Copy.Quiesce == QuiesceTooBusy {
				f.Copy.Quiesce = QuiesceWaits
			}
		}),
		"waits without an order":     plantest.Where(Next, func(_ Facts, d Decision) bool { return d == fail(OrderGone) }, wait(ForProof)),
		"waits for ever":             without(func(f *Facts) { f.Hold.Overdue = false }),
		"does not ask for the donor": without(func(f *Facts) { f.Donor.Node, f.Donor.Power = NodeReady, On }),
	}
	plantest.Catch(t, wrong, exploredCopies(copyStarts(), 2))
}

// TestWrongCopiersOfPioneers: each breaks a rule about pioneers in a reachable world.
func TestWrongCopiersOfPioneers(t *testing.T) {
	plantest.Catch(t, plantest.Wrong[Facts, Action, Reason]{
		"copies before the patch":                    with(mistaken(patchOf, PatchWanted, PatchDone)),
		"copies a drained pioneer":                   with(mistaken(patchOf, PatchUnderWay, PatchDone)),
		"copies a failed patch":                      with(mistaken(patchOf, PatchFailed, PatchDone)),
		"copies a pioneer without patches":           with(mistaken(patchOf, PatchCurrent, PatchDone)),
		"opens the workshop during the patch":        instead(PatchDonor, do(BeginWorkshop)),
		"patches for ever":                           with(mistaken(patchOf, PatchDone, PatchUnderWay)),
		"patches after the copy":                     where(func(f Facts, d Decision) bool { return d.Do == Publish && f.Donor.Patch == PatchDone }, do(PatchDonor)),
		"patches instead of the copy":                instead(CopyRunning, do(PatchDonor)),
		"patches while another node is away":         where(func(f Facts, d Decision) bool { return d.Why == ForNeighbour }, do(PatchDonor)),
		"patches before the record":                  where(func(f Facts, d Decision) bool { return d.Do == Record && f.Donor.Patch == PatchWanted }, do(PatchDonor)),
		"patches with the pod of the inspection":     where(func(f Facts, d Decision) bool { return d.Do == DeletePod && f.awaitsPatch() }, do(PatchDonor)),
		"protects a pioneer":                         where(func(f Facts, d Decision) bool { return d.Do == PatchDonor && !f.Hold.Protected }, do(Protect)),
		"starts a pioneer that is off":               replace(fail(DonorStopped), do(Start)),
		"begins a patch although it ends":            where(func(f Facts, _ Decision) bool { return f.Donor.Patch == PatchWanted && f.isHeld() && f.ends() }, do(PatchDonor)),
		"releases a node under patch":                with(func(f *Facts) { f.Donor.Patch = ended(*f) }),
		"leaves a pioneer cordoned":                  instead(Release, do(Forget)),
		"makes a version of a disk of another level": with(func(f *Facts) { f.Disk.LevelDiffers = false }),
	}, exploredCopies(copiedPioneers(), 2))
}

// ended takes a patch in progress for a failed one once the capture ends.
func ended(f Facts) Patch {
	if f.ends() && f.Donor.Patch == PatchUnderWay {
		return PatchFailed
	}
	return f.Donor.Patch
}

func ready(w Workshop) Workshop {
	if w == WorkshopMaking {
		return WorkshopReady
	}
	return w
}

func ours(a Artifact) Artifact {
	if a == Foreign {
		return Complete
	}
	return a
}

func whole(a Artifact) Artifact {
	if a == Broken {
		return Pending
	}
	return a
}

// gone hides a workshop from a capture that is about to end.
func gone(f Facts) Workshop {
	if f.ends() || f.hasCopy() {
		return NoWorkshop
	}
	return f.Copy.Workshop
}

func free(f Facts) Volume {
	if f.Disk.Proven && f.Copy.Volume == VolumeAttached {
		return VolumeFree
	}
	return f.Copy.Volume
}

func noPodOnEnd(f Facts) Pod {
	if f.ends() {
		return NoPod
	}
	return f.Disk.Pod
}

func held(f Facts) Lock {
	if f.Hold.Recorded {
		return Ours
	}
	return f.Hold.Lock
}

// TestActionsOfCopy: every action of the course by copy is in the list of all actions.
func TestActionsOfCopy(t *testing.T) {
	for _, a := range []Action{BeginWorkshop, QuiesceDonor, CopyRunning, DeleteRawCopy, AttachVolume, DetachVolume, DeleteVolume, EndWorkshop} {
		if !slices.Contains(Actions, a) {
			t.Errorf("Actions lacks %s", a)
		}
	}
}

// TestARelockEnds: a client that writes over the reservation of a pioneer again and again does not keep the copy, with its secrets,
// beyond the deadline.
func TestARelockEnds(t *testing.T) {
	f := Facts{
		Donor: DonorFacts{Node: NodeReady, Power: On, Patch: PatchDone}, Hold: HoldFacts{Recorded: true, Lock: Overwritten},
		Copy: CopyFacts{Wanted: true, Accepted: true, Raw: Pending, Workshop: WorkshopReady},
	}
	if d := Next(f); d != do(Relock) {
		t.Errorf("before the deadline: %s", d)
	}
	f.Hold.Overdue = true
	if d := Next(f); d != fail(DeadlineExceeded) {
		t.Errorf("after the deadline: %s", d)
	}
}
