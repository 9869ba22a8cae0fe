package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/plantest"
)

type (
	planner = plantest.Planner[Facts, Action, Reason]
	rule    = plantest.Rule[model, Action, Reason]
)

var that = plantest.That[model, Action, Reason]

// adversities is the number of troubles on one path. Three reach every pair of troubles, and then lose the status. The
// short form has two, enough for all wrong planners (TestWrongPlannersAreCaught).
func adversities(short bool) int {
	if short {
		return 2
	}
	return 3
}

// rules are the rules of a world. A version that is tried, or waits for a person, has more.
func (w model) rules() []rule {
	if w.tried.published {
		return publishedRules
	}
	return rules
}

// publishedRules are the rules of a version that is tried or waits for a person.
var publishedRules = slices.Concat(rules, trialRules)

// gaveBack reports whether the donor is unchanged: invariant 1.
func (w model) gaveBack() bool {
	f := w.f
	if f.Hold.Lock == Ours || f.Hold.Recorded {
		return false
	}
	node := f.Donor.Node == NodeGone || w.kept || f.Donor.Cordoned == w.cordonedBefore
	instance := f.Donor.Power == InstanceGone || f.Hold.Protected == w.protectedBefore
	return node && instance
}

// powered reports whether the capture started a donor again after its power-off.
func (w model) powered() bool {
	return !w.disturbed || w.booted || w.f.Donor.Power == InstanceGone
}

// needed reports whether the donor's disk is still needed: before the snapshot is taken, unless the capture fails.
func needed(f Facts) bool {
	open := !f.Deleting && !f.Failed && !f.LeavesDisk() && f.Image.Version == Absent
	return open && (f.Image.Snapshot == Absent || f.Image.Snapshot == Pending)
}

const (
	takes     = "|Look|Reserve|Record|Protect|Cordon|Evict|NodeOrder|Generalize|Adopt|"
	givesBack = "|PatchDonor|Note|Stop|DeletePod|Believe|DeleteOrder|Return|Start|Unprotect|Release|Forget|Fail|Wait|"
)

var rules = []rule{
	that("a refused capture changes nothing", takes, func(w model, _ Decision) bool { return !w.f.Refused || w.f.isHeld() }),
	that("nothing is taken once the end is decided", takes, func(w model, d Decision) bool {
		return !w.f.Deleting && !w.f.Failed || d.Do == Record && w.f.Donor.Power == InstanceGone // the Lease outlives the capture
	}),
	that("a donor is taken only behind a look that found nothing", "|Reserve|", func(w model, _ Decision) bool { return w.f.Disk.Pod == PodLooked }),
	that("no pod is left behind by a capture that ends", "|Refuse|Close|Succeed|", func(w model, _ Decision) bool { return w.f.Disk.Pod == NoPod }),
	that("nothing is drained while the look's pod is there", "|Protect|Cordon|Evict|NodeOrder|", func(w model, _ Decision) bool {
		return w.f.Disk.Pod == NoPod
	}),
	that("nothing but the lock is taken while another capture has a node away", "|Protect|Cordon|", func(w model, _ Decision) bool {
		return !w.f.Queued || w.f.Donor.Cordoned
	}),
	that("the lock comes first", "|Record|Protect|Cordon|Evict|NodeOrder|Generalize|", func(w model, _ Decision) bool {
		return w.f.Hold.Lock == Ours || w.f.Disk.Touched && w.f.isHeld()
	}),
	that("the record comes before what it restores", "|Protect|Cordon|Evict|NodeOrder|Generalize|", func(w model, _ Decision) bool {
		return w.f.Hold.Recorded || w.f.Disk.Touched && w.f.isHeld()
	}),
	that("pods are evicted only from a cordoned, protected donor", "|Evict|", func(w model, _ Decision) bool {
		return w.f.Donor.Cordoned && w.f.Hold.Protected
	}),
	that("only a drained donor is generalized", "|NodeOrder|", func(w model, _ Decision) bool {
		return w.f.Donor.Drained && w.f.Donor.Node == NodeReady
	}),
	that("a patch begins as carefully as a drain", "|PatchDonor|", func(w model, _ Decision) bool {
		f := w.f
		return f.Donor.Patch == PatchUnderWay ||
			f.Donor.Patch == PatchWanted && !f.Failed && !f.Deleting && f.Hold.Lock == Ours && f.Hold.Recorded && f.Hold.Protected && f.Disk.Pod == NoPod &&
				(!f.Queued || f.Donor.Cordoned)
	}),
	that("a node under patch is left to the patch", "", func(w model, d Decision) bool {
		return w.f.Donor.Patch != PatchUnderWay || w.f.Donor.Power == Off ||
			strings.Contains("|PatchDonor|Fail|Record|Relock|DeletePod|", "|"+string(d.Do)+"|")
	}),
	that("only a patched pioneer is generalized", "|NodeOrder|Generalize|", func(w model, _ Decision) bool {
		return w.f.Donor.Patch == NoPatch || w.patched
	}),
	that("a disk of another patch level is not copied", "|TakeSnapshot|", func(w model, _ Decision) bool { return !w.f.Disk.LevelDiffers }),
	that("a proof that is acted on cannot be taken back", "|Stop|TakeSnapshot|", func(w model, _ Decision) bool {
		return !needed(w.f) || !w.f.Disk.Order
	}),
	that("only a pod that was written down is waited for", "|Wait|", func(w model, d Decision) bool {
		return d.Why != ForProof || w.f.Disk.Pod == NoPod || w.f.Disk.PodKnown
	}),
	that("a report that cannot come is not awaited", "|Wait|Generalize|", func(w model, d Decision) bool {
		return d.Do == Wait && d.Why != ForProof || w.f.Disk.Order
	}),
	that("nothing is made of a disk whose proof is gone", "|Publish|Promote|", func(w model, _ Decision) bool { return !w.proofGone }),
	that("the order is written before the pod", "|Generalize|", func(w model, _ Decision) bool {
		return w.f.Disk.Touched && !w.f.Donor.Rebooted && !w.f.Hold.Returning && w.f.Donor.Power == On
	}),
	that("power goes off only for a proven or a disturbed disk", "|Stop|", func(w model, _ Decision) bool {
		return w.f.Disk.Touched && w.f.isHeld() && !w.f.Hold.Returning
	}),
	that("a donor that powers itself off is left to it", "|Stop|", func(w model, _ Decision) bool { return !w.f.Disk.PoweringOff }),
	that("a donor that came back is not stopped again", "|Stop|", func(w model, _ Decision) bool { return !w.f.Donor.Rebooted }),
	that("only a generalized disk that is off is copied", "|TakeSnapshot|", func(w model, _ Decision) bool {
		return w.clean && w.f.Donor.Power == Off && w.f.Disk.Proven
	}),
	that("power comes back only after it was written down, without the pod", "|Start|", func(w model, _ Decision) bool {
		return w.f.Hold.Returning && w.f.Disk.Pod == NoPod
	}),
	that("only a generalized snapshot is published", "|Publish|", func(w model, _ Decision) bool {
		return w.cleanSnapshot && w.f.Image.Snapshot == Complete
	}),
	that("the donor is back before the image is made", "|Publish|", func(w model, _ Decision) bool { return w.gaveBack() }),
	that("only a complete, generalized, trusted image is promoted", "|Promote|", func(w model, _ Decision) bool {
		return w.f.Image.Version == Complete && w.cleanImage && !w.f.Image.Quarantined
	}),
	that("a promotion never goes backwards", "|Promote|", func(w model, _ Decision) bool { return w.f.Promotion.Recipe == RecipeElsewhere }),
	that("what the recipe loses is saved first", "|Promote|", func(w model, _ Decision) bool { return w.f.Promotion.Saved }),
	that("versions are retired only behind a promoted one", "|Retire|", func(w model, _ Decision) bool {
		return w.f.Promotion.Recipe == RecipeHere
	}),
	that("an image that a recipe names, or that is complete, is not deleted", "|DeleteImage|", func(w model, _ Decision) bool {
		return w.f.Promotion.Recipe != RecipeHere && w.f.Image.Version != Complete
	}),
	that("the snapshot stays while it may be needed", "|DeleteSnapshot|", func(w model, _ Decision) bool {
		return w.f.Deleting || w.f.Failed || w.f.Image.Version == Complete
	}),
	that("a disturbed donor is not released before it went through a boot", "|Release|", func(w model, _ Decision) bool {
		return !w.disturbed || w.booted || w.f.Donor.Power == InstanceGone
	}),
	that("a donor is released running", "|Release|", func(w model, _ Decision) bool {
		return w.f.Donor.Power == On || w.f.Donor.Power == InstanceGone
	}),
	that("another holder's reservation stays", "|Release|Relock|Note|", func(w model, _ Decision) bool { return w.f.Hold.Lock != Theirs }),
	that("the Node knows of the order before the pod is made", "|Generalize|", func(w model, _ Decision) bool {
		return w.f.Hold.Lock != Ours || w.noted
	}),
	that("nothing goes on without its record", takes+"Publish|SaveRecipe|Promote|Retire|", func(w model, _ Decision) bool {
		return !w.f.Unrecorded || w.f.Failed || w.f.Deleting
	}),
	that("a stopped donor is not waited for", "|Wait|Evict|", func(w model, _ Decision) bool {
		return w.f.MustBoot() || !needed(w.f) || w.f.Donor.Power != Off || !w.f.isHeld()
	}),
	that("a Node that is gone with its pod is not waited for", "|Wait|Generalize|", func(w model, _ Decision) bool {
		return !w.f.Disk.Touched || !needed(w.f) || w.f.Disk.Proven || w.f.Donor.Node != NodeGone || w.f.Disk.Pod != NoPod ||
			w.f.Image.Version != Absent ||
			w.f.Image.Snapshot != Absent
	}),
	that("a donor is released Ready, unless that was awaited long enough", "|Release|Forget|", func(w model, _ Decision) bool {
		return !w.f.MustBoot() || w.f.isBack() || w.f.Hold.ReadyOverdue || w.f.Donor.Power == InstanceGone ||
			w.f.Hold.Lock == Unlocked && w.f.Donor.Node == NodeGone
	}),
	that("the end leaves nothing behind", "|Succeed|Close|Refuse|", func(w model, d Decision) bool {
		return w.gaveBack() && w.powered() && w.f.Disk.Pod == NoPod && (!w.f.Disk.Order || d.Do == Refuse) &&
			(w.f.Image.Snapshot == Absent || w.f.Image.Snapshot == Foreign)
	}),
	that("success means a promoted image", "|Succeed|", func(w model, _ Decision) bool {
		return w.f.Promotion.Recipe == RecipeHere && w.f.Image.Version == Complete && w.cleanImage && !w.f.Promotion.MustRetire
	}),
	that("a failed end leaves no half-made image", "|Close|", func(w model, _ Decision) bool {
		return w.f.Image.Version != Pending && w.f.Image.Version != Broken
	}),
	that("promptness: a donor whose disk is not needed is on its way back", "", func(w model, d Decision) bool {
		return !w.f.isHeld() || needed(w.f) || strings.Contains(givesBack, "|"+string(d.Do)+"|") ||
			d.Do == Record && w.f.Donor.Power == InstanceGone
	}),
	that("promptness: no wait while the donor's way back is open", "|Wait|", func(w model, d Decision) bool {
		if !w.f.isHeld() || needed(w.f) {
			return true
		}
		return d.Why == ForHolder && w.f.Hold.Lock == Theirs || d.Why == ForPowerOff && (w.f.Donor.Power == Changing || w.f.Disk.PoweringOff) ||
			d.Why == ForPowerOn && w.f.Donor.Power == Changing ||
			d.Why == ForReady && w.f.Donor.Power == On && !w.f.isBack()
	}),
	that("promptness: a deadline ends what holds the donor", "", func(w model, d Decision) bool {
		return !w.f.Hold.Overdue || !w.f.isHeld() || !needed(w.f) || d.Do == Fail
	}),
	that("a wait has a reason and a verdict too", "|Wait|Fail|", func(_ model, d Decision) bool { return d.Why != "" }),
}

// TestDownAndTouchedAreTwoFacts: in all reachable worlds, no copy is made of a disk without an order, and no donor
// returns in the boot that it must leave.
func TestDownAndTouchedAreTwoFacts(t *testing.T) {
	seen := map[[2]bool]int{}
	for f := range everywhere().facts {
		seen[[2]bool{f.Disk.Touched, f.Donor.MustLeaveBoot}]++
		for _, both := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
			f.Disk.Touched, f.Donor.MustLeaveBoot = both[0], both[1]
			for _, d := range []Decision{Next(f), Orphan(f)} {
				switch d.Do {
				case Generalize, Adopt, Stop, TakeSnapshot:
					if !f.Disk.Touched && (d.Do != Stop || !f.Donor.MustLeaveBoot) {
						t.Fatalf("%s, though no order touched the disk: %+v", d, f)
					}
				case Release, Forget:
					if f.MustBoot() && f.isHeld() && f.Donor.Power == On && !f.isBack() && !f.Hold.ReadyOverdue {
						t.Fatalf("%s, though the donor has not left its boot: %+v", d, f)
					}
				case Order, Protect, Cordon, Evict:
					if f.MustBoot() {
						t.Fatalf("%s, though it is past that: %+v", d, f)
					}
				default:
				}
			}
		}
	}
	if seen[[2]bool{false, true}] == 0 || seen[[2]bool{true, true}] == 0 || seen[[2]bool{false, false}] == 0 {
		t.Errorf("reached worlds that are touched and down: %v", seen)
	}
}

// TestWhatIsNotReadDoesNotMatter: the engine reads neither pod nor NodeOrder, snapshot, image and instance where the record says
// that they do not matter, and so decides as if there were none.
func TestWhatIsNotReadDoesNotMatter(t *testing.T) {
	tried := map[string]int{}
	for f := range everywhere().facts {
		without := f
		if !f.PodMatters() && !f.LeftoversMatter() {
			without.Disk.Pod = NoPod
		}
		if f.Disk.Touched && !f.OrderMatters() && !f.LeftoversMatter() {
			without.Disk.Order, without.Disk.Reported = false, false
		}
		if f.LeavesDisk() {
			without.Image.Snapshot, without.Image.Version = Absent, Absent
		}
		if !f.isHeld() && (f.MustBoot() || f.Failed || f.Deleting) {
			without.Donor.Power, without.Hold.Protected, without.Hold.ProtectionRestored = PowerUnread, false, false
		}
		if got, want := Next(without), Next(f); got != want {
			t.Fatalf("%s without a look, %s with one: %+v", got, want, f)
		}
		for what, differs := range map[string]bool{"pod": without.Disk.Pod != f.Disk.Pod, "snapshot": without.Image.Snapshot != f.Image.Snapshot, "image": without.Image.Version != f.Image.Version, "instance": without.Donor.Power != f.Donor.Power, "order": without.Disk.Order != f.Disk.Order} {
			if differs {
				tried[what]++
			}
		}
	}
	if tried["instance"] == 0 || tried["snapshot"] == 0 || tried["pod"] == 0 {
		t.Errorf("not tried in all rooms: %v", tried)
	}
}

// TestAnOrphanThatAnotherClientStopped: without a Prototype, Kamino starts only what its record has taken down. The Node is released.
func TestAnOrphanThatAnotherClientStopped(t *testing.T) {
	for name, of := range map[string]struct {
		change func(*Facts)
		want   Decision
	}{
		"stopped by another client":     {func(*Facts) {}, do(Release)},
		"being stopped":                 {func(f *Facts) { f.Donor.Power = Changing }, do(Release)},
		"with a pod":                    {func(f *Facts) { f.Disk.Pod = PodActive }, do(DeletePod)},
		"generalized in place":          {func(f *Facts) { f.Disk.Touched, f.Donor.MustLeaveBoot = true, true }, do(Return)},
		"on the way back":               {func(f *Facts) { f.Hold.Returning = true }, do(Start)},
		"on, and untouched":             {func(f *Facts) { f.Donor.Power = On }, do(Release)},
		"held by another client, too":   {func(f *Facts) { f.Hold.Lock = Theirs }, wait(ForHolder)},
		"with a snapshot of its disk":   {func(f *Facts) { f.Image.Snapshot = Complete }, do(DeleteSnapshot)},
		"with scale-in protection":      {func(f *Facts) { f.Hold.ProtectionRestored = false }, do(Unprotect)},
		"whose instance does not exist": {func(f *Facts) { f.Donor.Power = InstanceGone }, wait(ForDeletion)},
	} {
		f := Facts{
			Deleting: true, Hold: HoldFacts{Lock: Ours, Noted: true, ProtectionRestored: true},
			Donor: DonorFacts{Node: NodeNotReady, Power: Off, Cordoned: true},
		}
		of.change(&f)
		if got := Orphan(f); got != of.want {
			t.Errorf("%s: %s, want %s", name, got, of.want)
		}
	}
}
