package plan

import (
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strings"
	"testing"
)

type planner func(Facts) Decision

// maxSteps is how many steps a cooperative world may take from anywhere to the end.
const maxSteps = 60

// adversities is the number of troubles on one path. Three reach every pair of troubles, and then lose the status. The
// short form has two, enough for all mutants (TestWrongPlannersAreCaught).
func adversities(short bool) int {
	if short {
		return 2
	}
	return 3
}

// violation says what a planner did wrong, and how the world came there.
type violation struct {
	property string
	world    model
	decision Decision
}

func (v violation) String() string {
	return fmt.Sprintf("%s\n  decision: %s\n  world: %+v", v.property, v.decision, v.world)
}

// exploration is what is reached under a planner.
type exploration struct {
	next, unseen planner
	worlds       int
	facts        []Facts
	attempts     int8 // at a trial, at most

	// bad is the first violation, and adverse how many adverse events came before it.
	bad     *violation
	adverse int

	// A world has a third of a KiB: the exploration keeps its hash. One of thirty million runs meets two worlds of
	// equal hash.
	seed      maphash.Seed
	seen, had map[uint64]bool
	steps     map[uint64]int8 // from a world to its end
}

// explore visits all worlds that the planner can reach. Each action is also lost before or after its effect, and each
// observation may miss the cloud. Each world is visited once, on the path with the fewest adversities.
func explore(next, unseen planner, starts []model, adversities int) *exploration {
	e := &exploration{next: next, unseen: unseen, seed: maphash.MakeSeed(), seen: map[uint64]bool{}, had: map[uint64]bool{}, steps: map[uint64]int8{}}
	layer := e.visit(starts)
	for e.bad == nil && e.adverse < adversities {
		e.adverse++
		var reached []model
		for _, w := range layer {
			after := e.visit(w.adverse())
			if e.bad != nil {
				return e
			}
			if e.adverse < adversities {
				reached = append(reached, after...)
			}
		}
		layer = reached
	}
	return e
}

// visit judges the worlds and their successors without adversities. It returns the new, open worlds.
func (e *exploration) visit(worlds []model) []model {
	var visited []model
	queue := e.unvisited(nil, worlds...)
	for len(queue) > 0 && e.bad == nil {
		w := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if !w.closed {
			visited = append(visited, w)
			queue = e.checkDecision(queue, w)
		}
	}
	for _, w := range visited {
		if e.bad == nil {
			e.bad = e.live(w)
		}
	}
	return visited
}

// unvisited appends the new worlds.
func (e *exploration) unvisited(queue []model, worlds ...model) []model {
	for _, w := range worlds {
		if key := maphash.Comparable(e.seed, w); !e.seen[key] {
			e.seen[key] = true
			e.worlds++
			queue = append(queue, w)
		}
	}
	return queue
}

// checkDecision judges the decision in a world, and appends the next worlds.
func (e *exploration) checkDecision(queue []model, w model) []model {
	if key := maphash.Comparable(e.seed, w.f); !e.had[key] {
		e.had[key] = true
		e.facts = append(e.facts, w.f)
	}
	e.attempts = max(e.attempts, w.tried.attempts)
	d, blind := e.next(w.f), e.unseen(w.f.inCluster())
	if problem := safe(w, d); problem != "" {
		e.bad = &violation{problem, w, d}
	} else if problem := blindly(w, blind); problem != "" {
		e.bad = &violation{problem, w, blind}
	}
	return e.unvisited(queue, w.effect(d), w.progress(), w.effect(blind))
}

// safe returns the safety property that the decision breaks, or an empty text.
func safe(w model, d Decision) string {
	held := properties
	if w.tried.published {
		held = publishedProperties
	}
	for _, p := range held {
		if p.actions != "" && !strings.Contains(p.actions, "|"+string(d.Do)+"|") {
			continue
		}
		if !p.holds(w, d) {
			return p.name
		}
	}
	return ""
}

// publishedProperties are held where a version is tried or waits for a person.
var publishedProperties = append(slices.Clone(properties), trialProperties...)

// gaveBack reports whether the donor is unchanged: invariant 1.
func (w model) gaveBack() bool {
	f := w.f
	if f.Hold.Lock == Ours || f.Hold.Recorded {
		return false
	}
	node := f.Donor.Node == NodeGone || f.Donor.Cordoned == w.cordonedBefore
	instance := f.Donor.Power == InstanceGone && !f.Leaving.PlaceKept || f.Hold.Protected == w.protectedBefore
	return node && instance
}

// powered reports whether the capture started a donor again after its power-off.
func (w model) powered() bool {
	return !w.disturbed || w.booted || w.f.Donor.Power == InstanceGone
}

// isRemoved reports whether the donor can only be removed.
func (w model) isRemoved() bool { return w.f.Leaving.Replaced && w.f.Disk.Touched }

// needed reports whether the donor's disk is still needed: before the snapshot exists (for a returning donor: before
// the snapshot is taken), unless the capture fails.
func needed(f Facts) bool {
	open := !f.Deleting && !f.Failed && !f.LeavesDisk() && f.Image.Version == Absent
	return open && (f.Image.Snapshot == Absent || f.Image.Snapshot == Pending || f.Image.Snapshot == Taken && f.Leaving.Replaced)
}

const (
	takes     = "|Look|Reserve|Record|TakeOut|Protect|Cordon|Evict|NodeOrder|Generalize|Adopt|"
	givesBack = "|PatchDonor|Note|Stop|DeletePod|Believe|DeleteOrder|Return|Start|Unprotect|Release|Forget|Fail|Wait|Remove|DeleteNode|Enlarge|"
)

// property is what is held of decisions.
type property struct {
	name    string
	actions string // the actions of the property; all if empty
	holds   func(model, Decision) bool
}

var properties = []property{
	{"a refused capture changes nothing", takes, func(w model, _ Decision) bool { return !w.f.Refused || w.f.isHeld() }},
	{"nothing is taken once the end is decided", takes, func(w model, d Decision) bool {
		return !w.f.Deleting && !w.f.Failed || d.Do == Record && w.isRemoved() || w.f.Leaving.Added && (d.Do == Record || d.Do == Cordon || d.Do == Evict)
	}},
	{"a donor is taken only behind a look that found nothing", "|Reserve|", func(w model, _ Decision) bool { return w.f.Disk.Pod == PodLooked }},
	{"no pod is left behind by a capture that ends", "|Refuse|Close|Succeed|", func(w model, _ Decision) bool { return w.f.Disk.Pod == NoPod }},
	{"nothing is drained while the look's pod is there", "|Protect|Cordon|Evict|NodeOrder|", func(w model, d Decision) bool {
		return w.f.Disk.Pod == NoPod ||
			w.f.Leaving.Added && w.f.Donor.Patch == PatchWanted && (d.Do == Protect || d.Do == Cordon) // an added donor is protected first
	}},
	{"an added donor is patched only behind a look that found nothing", "|PatchDonor|", func(w model, _ Decision) bool {
		return !w.f.Leaving.Added || w.f.Donor.Patch != PatchWanted || w.f.Disk.Pod == PodLooked
	}},
	{"nothing but the lock is taken while another capture has a node away", "|TakeOut|Protect|Cordon|", func(w model, _ Decision) bool {
		return !w.f.Queued || w.f.Donor.Cordoned || w.f.Leaving.Added && (w.f.Donor.Patch == PatchWanted || w.f.Failed || w.f.Deleting)
	}},
	{
		"the lock comes first",
		"|Record|Protect|Cordon|Evict|NodeOrder|Generalize|",
		func(w model, _ Decision) bool { return w.f.Hold.Lock == Ours || w.f.Disk.Touched && w.f.isHeld() },
	},
	{
		"the record comes before what it restores",
		"|Protect|Cordon|Evict|NodeOrder|Generalize|",
		func(w model, _ Decision) bool { return w.f.Hold.Recorded || w.f.Disk.Touched && w.f.isHeld() },
	},
	{"pods are evicted only from a cordoned, protected donor", "|Evict|", func(w model, _ Decision) bool {
		return w.f.Donor.Cordoned && (w.f.Hold.Protected || w.f.Leaving.Added && (w.f.Failed || w.f.Deleting))
	}},
	{"only a drained donor is generalized", "|NodeOrder|", func(w model, _ Decision) bool { return w.f.Donor.Drained && w.f.Donor.Node == NodeReady }},
	{"a patch begins as carefully as a drain", "|PatchDonor|", func(w model, _ Decision) bool {
		f := w.f
		return f.Donor.Patch == PatchUnderWay ||
			f.Donor.Patch == PatchWanted && !f.Failed && !f.Deleting && f.Hold.Lock == Ours && f.Hold.Recorded && f.Hold.Protected && (f.Disk.Pod == NoPod || f.Leaving.Added) &&
				(!f.Queued || f.Donor.Cordoned) &&
				(!f.Leaving.Replaced || !f.Leaving.GrowFirst || f.Leaving.Added && f.Donor.Node == NodeReady || f.Leaving.Replacement == ReplacementReady)
	}},
	{"a node under patch is left to the patch", "", func(w model, d Decision) bool {
		return w.f.Donor.Patch != PatchUnderWay || w.f.Donor.Power == Off || strings.Contains("|PatchDonor|Fail|Record|Relock|DeletePod|", "|"+string(d.Do)+"|")
	}},
	{"only a patched pioneer is generalized", "|NodeOrder|Generalize|", func(w model, _ Decision) bool { return w.f.Donor.Patch == NoPatch || w.patched }},
	{"a disk of another patch level is not copied", "|TakeSnapshot|", func(w model, _ Decision) bool { return !w.f.Disk.LevelDiffers }},
	{"a proof that is acted on cannot be taken back", "|Stop|TakeSnapshot|", func(w model, _ Decision) bool {
		return !needed(w.f) || !w.f.Disk.Order
	}},
	{"only a pod that was written down is waited for", "|Wait|", func(w model, d Decision) bool {
		return d.Why != ForProof || w.f.Disk.Pod == NoPod || w.f.Disk.PodKnown
	}},
	{"nothing is made of a disk whose proof is gone", "|Publish|Promote|", func(w model, _ Decision) bool { return !w.proofGone }},
	{"the order is written before the pod", "|Generalize|", func(w model, _ Decision) bool {
		return w.f.Disk.Touched && !w.f.Donor.Rebooted && !w.f.Hold.Returning && w.f.Donor.Power == On
	}},
	{
		"power goes off only for a proven or a disturbed disk",
		"|Stop|",
		func(w model, _ Decision) bool { return w.f.Disk.Touched && w.f.isHeld() && !w.f.Hold.Returning },
	},
	{"a donor that powers itself off is left to it", "|Stop|", func(w model, _ Decision) bool { return !w.f.Disk.PoweringOff }},
	{"a donor that came back is not stopped again", "|Stop|", func(w model, _ Decision) bool { return !w.f.Donor.Rebooted }},
	{
		"only a generalized disk that is off is copied",
		"|TakeSnapshot|",
		func(w model, _ Decision) bool { return w.clean && w.f.Donor.Power == Off && w.f.Disk.Proven },
	},
	{
		"power comes back only after it was written down, without the pod",
		"|Start|",
		func(w model, _ Decision) bool { return w.f.Hold.Returning && w.f.Disk.Pod == NoPod },
	},
	{"only a generalized snapshot is published", "|Publish|", func(w model, _ Decision) bool { return w.cleanSnapshot && w.f.Image.Snapshot == Complete }},
	{"the donor is back before the image is made", "|Publish|", func(w model, _ Decision) bool { return w.gaveBack() }},
	{"only a complete, generalized, trusted image is promoted", "|Promote|", func(w model, _ Decision) bool {
		return w.f.Image.Version == Complete && w.cleanImage && !w.f.Image.Quarantined
	}},
	{"a promotion never goes backwards", "|Promote|", func(w model, _ Decision) bool { return w.f.Promotion.Recipe == RecipeElsewhere }},
	{"what the recipe loses is saved first", "|Promote|", func(w model, _ Decision) bool { return w.f.Promotion.Saved }},
	{"versions are retired only behind a promoted one", "|Retire|ScaleOut|", func(w model, _ Decision) bool { return w.f.Promotion.Recipe == RecipeHere }},
	{"an image that a recipe names, or that is complete, is not deleted", "|DeleteImage|", func(w model, _ Decision) bool {
		return w.f.Promotion.Recipe != RecipeHere && w.f.Image.Version != Complete
	}},
	{"the snapshot stays while it may be needed", "|DeleteSnapshot|", func(w model, _ Decision) bool {
		return w.f.Deleting || w.f.Failed || w.f.Image.Version == Complete
	}},
	{"a disturbed donor is not released before it went through a boot", "|Release|", func(w model, _ Decision) bool {
		return !w.disturbed || w.booted || w.f.Donor.Power == InstanceGone
	}},
	{"a donor is released running", "|Release|", func(w model, _ Decision) bool {
		return w.f.Donor.Power == On || w.f.Donor.Power == InstanceGone
	}},
	{"a donor that leaves does not come back", "|Return|Start|Unprotect|", func(w model, _ Decision) bool { return !w.isRemoved() }},
	{"a donor is never both removed and returned to service", "|Release|", func(w model, _ Decision) bool { return !w.removed }},
	{
		"only a donor that leaves, and was touched or added, is removed",
		"|Remove|",
		func(w model, _ Decision) bool { return (w.isRemoved() || w.f.Leaving.Added) && w.f.isHeld() },
	},
	{"an added donor is never returned", "|Return|Start|Unprotect|Release|", func(w model, _ Decision) bool { return !w.f.Leaving.Added }},
	{"an added donor that can serve is drained before its removal", "|Remove|", func(w model, _ Decision) bool {
		f := w.f
		return !f.Leaving.Added || f.MustBoot() || f.Donor.Drained && f.Donor.Cordoned || f.Donor.Power == Off || f.Donor.Power == InstanceGone ||
			f.Donor.Node == NodeGone ||
			f.Donor.Node == NodeNotReady && f.Hold.Overdue && f.Donor.Cordoned
	}},
	{"an added donor takes no pods before its patch", "|Protect|PatchDonor|", func(w model, _ Decision) bool {
		return !w.f.Leaving.Added || w.f.Donor.Patch != PatchWanted || w.f.Donor.Cordoned
	}},
	{"a pool is never left larger than it was", "|Succeed|Close|", func(w model, _ Decision) bool { return !w.f.Leaving.Added || w.size <= 0 }},
	{"a donor is removed when its disk is not needed", "|Remove|", func(w model, _ Decision) bool {
		return !needed(w.f) || w.f.Image.Snapshot == Complete
	}},
	{"an instance is removed before its Node", "|DeleteNode|", func(w model, _ Decision) bool {
		return w.f.Donor.Power == InstanceGone && !w.f.Leaving.PlaceKept && (w.isRemoved() || w.f.Leaving.Added)
	}},
	{"only a Node that is down is deleted", "|DeleteNode|", func(w model, _ Decision) bool { return w.f.Donor.Node == NodeNotReady }},
	{"another holder's Node is not removed", "|Remove|DeleteNode|", func(w model, _ Decision) bool { return w.f.Hold.Lock != Theirs }},
	{"a replacement is recorded before the donor is drained", "|Protect|Cordon|Evict|NodeOrder|PatchDonor|", func(w model, d Decision) bool {
		return !w.f.Leaving.GrowFirst || w.takenOut || w.f.Leaving.Added && d.Do != PatchDonor || w.f.Donor.Patch == PatchUnderWay
	}},
	{"a donor that leaves is taken behind its replacement", "|TakeOut|Protect|Cordon|Evict|NodeOrder|", func(w model, _ Decision) bool {
		return !w.f.Leaving.Replaced || !w.f.Leaving.GrowFirst || w.f.Leaving.Added || w.f.Leaving.Replacement == ReplacementReady
	}},
	{"a pool grows for its donor only, and by one", "|Enlarge|", func(w model, _ Decision) bool {
		return w.f.Leaving.Replaced && w.f.Leaving.Replacement == ReplacementWanted && w.f.isHeld() && w.size < 1
	}},
	{"a pool is never left smaller than it was", "|Succeed|Close|", func(w model, _ Decision) bool {
		return !w.f.Leaving.Replaced || w.size+w.shrunk >= 0
	}},
	{
		"a donor that leaves takes its place along",
		"|Succeed|Close|",
		func(w model, _ Decision) bool { return !w.isRemoved() && !w.f.Leaving.Added || !w.f.Leaving.PlaceKept },
	},
	{"another holder's reservation stays", "|Release|Relock|Note|", func(w model, _ Decision) bool { return w.f.Hold.Lock != Theirs }},
	{"the Node knows of the order before the pod is made", "|Generalize|", func(w model, _ Decision) bool { return w.f.Hold.Lock != Ours || w.noted }},
	{
		"nothing goes on without its record",
		takes + "Publish|SaveRecipe|Promote|Retire|ScaleOut|",
		func(w model, _ Decision) bool { return !w.f.Unrecorded || w.f.Failed || w.f.Deleting },
	},
	{"a stopped donor is not waited for", "|Wait|Evict|", func(w model, _ Decision) bool {
		return w.f.MustBoot() || !needed(w.f) || w.f.Donor.Power != Off || !w.f.isHeld()
	}},
	{"a Node that is gone with its pod is not waited for", "|Wait|Generalize|", func(w model, _ Decision) bool {
		return !w.f.Disk.Touched || !needed(w.f) || w.f.Disk.Proven || w.f.Donor.Node != NodeGone || w.f.Disk.Pod != NoPod || w.f.Image.Version != Absent ||
			w.f.Image.Snapshot != Absent
	}},
	{"a donor is released Ready, unless that was awaited long enough", "|Release|Forget|", func(w model, _ Decision) bool {
		return !w.f.MustBoot() || w.f.isBack() || w.f.Hold.ReadyOverdue || w.f.Donor.Power == InstanceGone ||
			w.f.Hold.Lock == Unlocked && w.f.Donor.Node == NodeGone
	}},
	{"the end leaves nothing behind", "|Succeed|Close|Refuse|", func(w model, d Decision) bool {
		return w.gaveBack() && w.powered() && w.f.Disk.Pod == NoPod && (!w.f.Disk.Order || d.Do == Refuse) &&
			(w.f.Image.Snapshot == Absent || w.f.Image.Snapshot == Foreign)
	}},
	{"success means a promoted image", "|Succeed|", func(w model, _ Decision) bool {
		return w.f.Promotion.Recipe == RecipeHere && w.f.Image.Version == Complete && w.cleanImage && !w.f.Promotion.MustRetire && !w.f.Promotion.MustScaleOut
	}},
	{
		"a failed end leaves no half-made image",
		"|Close|",
		func(w model, _ Decision) bool { return w.f.Image.Version != Pending && w.f.Image.Version != Broken },
	},
	{"promptness: a donor whose disk is not needed is on its way back", "", func(w model, d Decision) bool {
		return !w.f.isHeld() || needed(w.f) || strings.Contains(givesBack, "|"+string(d.Do)+"|") || d.Do == Record && w.isRemoved() ||
			w.f.Leaving.Added && slices.Contains([]Action{Record, Relock, Cordon, Evict}, d.Do)
	}},
	{"promptness: no wait while the donor's way back is open", "|Wait|", func(w model, d Decision) bool {
		if !w.f.isHeld() || needed(w.f) {
			return true
		}
		return d.Why == ForHolder && w.f.Hold.Lock == Theirs || d.Why == ForPowerOff && (w.f.Donor.Power == Changing || w.f.Disk.PoweringOff) ||
			d.Why == ForPowerOn && w.f.Donor.Power == Changing ||
			d.Why == ForReady && w.f.Donor.Power == On && !w.f.isBack() ||
			d.Why == ForRemoval && (w.f.Leaving.Removing || w.f.Donor.Power == InstanceGone && w.f.Donor.Node == NodeReady)
	}},
	{"promptness: a deadline ends what holds the donor", "", func(w model, d Decision) bool {
		return !w.f.Hold.Overdue || !w.f.isHeld() || !needed(w.f) || d.Do == Fail
	}},
	{"a wait has a reason and a verdict too", "|Wait|Fail|", func(_ model, d Decision) bool { return d.Why != "" }},
}

// live follows the planner from a world without adversities, and returns the error of the end.
func (e *exploration) live(from model) *violation {
	var way []uint64
	steps := int8(0)
	for w := from; !w.closed; {
		key := maphash.Comparable(e.seed, w)
		var known bool
		if steps, known = e.steps[key]; known {
			break
		}
		if len(way) == maxSteps {
			return &violation{"liveness: never ends", from, e.next(from.f)}
		}
		way = append(way, key)
		d := e.next(w.f)
		after := w.effect(d)
		if after == w {
			after = w.progress()
		}
		if after == w { // nothing moves but time
			after.f.Disk.PoweringOff = false
			after.f.Hold.ReadyOverdue = w.f.Hold.Overdue && w.f.isHeld()
			after.f.Hold.Overdue = w.f.isHeld()
			after.locked = w.locked && !w.f.Hold.Overdue // a client removes the reservation
		}
		if after == w {
			return &violation{"liveness: stuck at " + d.String(), w, d}
		}
		w = after
	}
	if steps += int8(len(way)); steps > maxSteps {
		return &violation{"liveness: never ends", from, e.next(from.f)}
	}
	for i, key := range way {
		e.steps[key] = steps - int8(i)
	}
	return nil
}

// everywhere is what is reached under the planner from everywhere, with so many adverse events. It is explored once for all tests.
var everywhere = func() func(int) *exploration {
	explored := map[int]*exploration{}
	return func(adversities int) *exploration {
		if explored[adversities] == nil {
			starts := slices.Concat(returningDonors(), leavingDonors(), instantDonors(), pioneers(), addedDonors())
			explored[adversities] = explore(Next, WithoutCloud, starts, adversities)
		}
		return explored[adversities]
	}
}()

// TestEveryReachableWorld checks safety, promptness and liveness in all worlds within three adversities, with each
// action lost before or after its effect.
func TestEveryReachableWorld(t *testing.T) {
	e := everywhere(adversities(testing.Short()))
	if e.bad != nil {
		t.Fatal(e.bad)
	}
	t.Logf("%d worlds, %d distinct facts", e.worlds, len(e.facts))
}

// TestDownAndTouchedAreTwoFacts: in all reachable worlds, no copy is made of a disk without an order, and no donor
// returns in the boot that it must leave.
func TestDownAndTouchedAreTwoFacts(t *testing.T) {
	reached := everywhere(adversities(testing.Short())).facts
	seen := map[[2]bool]int{}
	for _, f := range reached {
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
	for _, f := range everywhere(adversities(testing.Short())).facts {
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

// aloud is what a planner does when nothing goes wrong.
func aloud(w model) (said string, end model) {
	w = w.derived()
	var got []string
	for range maxSteps {
		if w.closed {
			break
		}
		d := Next(w.f)
		if len(got) == 0 || got[len(got)-1] != d.String() {
			got = append(got, d.String())
		}
		if after := w.effect(d); after != w {
			w = after
			continue
		}
		w = w.progress()
	}
	return strings.Join(got, ", "), w
}

// TestActionsOfWholeCapture lists the actions of a whole capture for a returning and a leaving donor.
func TestActionsOfWholeCapture(t *testing.T) {
	const (
		taken     = "Look, Wait: Look, Reserve, Record, DeletePod, "
		patched   = "Protect, PatchDonor, "
		copied    = "Protect, Cordon, Evict, NodeOrder, Note, Generalize, Adopt, Wait: Proof, Believe, DeleteOrder, Wait: PowerOff, TakeSnapshot, "
		complete  = "Wait: Snapshot, "
		back      = "DeletePod, Return, Note, Start, Wait: Ready, Unprotect, Release, Forget, "
		published = "Publish, Wait: Image, DeleteSnapshot, SaveRecipe, Promote, Retire, ScaleOut, Wait: Deletion, Succeed"
		removed   = "DeletePod, Remove, Wait: Removal, "
	)
	for _, c := range []struct {
		want string
		of   model
	}{
		{taken + copied + complete + back + published, model{}},
		{taken + patched + strings.TrimPrefix(copied, "Protect, ") + complete + back + published, model{f: Facts{Donor: DonorFacts{Patch: PatchWanted}}, patchEnd: PatchDone}},
		{taken + copied + back + complete + published, model{instant: true}},
		{taken + "Enlarge, Wait: Replacement, TakeOut, " + copied + complete + removed + "DeleteNode, Forget, " + published, model{f: Facts{Leaving: LeavingFacts{Replaced: true, GrowFirst: true}}}},
		{taken + copied + complete + removed + "Enlarge, Wait: Removal, DeleteNode, Forget, " + published, model{f: Facts{Leaving: LeavingFacts{Replaced: true}}}},
		{"Relock, TakeOut, Cordon, Protect, Look, Wait: Look, PatchDonor, DeletePod, PatchDonor, " + strings.TrimPrefix(copied, "Protect, ") + complete + removed + "DeleteNode, Forget, " + published,
			model{size: 1, patchEnd: PatchDone, f: Facts{Leaving: LeavingFacts{Replaced: true, GrowFirst: true, Added: true}, Hold: HoldFacts{Recorded: true}, Donor: DonorFacts{Patch: PatchWanted}}}},
		{taken + copied + complete + removed + "Enlarge, Wait: Removal, DeleteNode, Forget, " + published, model{f: Facts{Leaving: LeavingFacts{Replaced: true}}, instant: true}},
	} {
		f := &c.of.f
		f.Donor.Node, f.Donor.Power, f.Promotion.MustRetire, f.Promotion.MustScaleOut = NodeReady, On, true, true
		got, w := aloud(c.of)
		if got != c.want {
			t.Errorf("order of a capture:\n got %s\nwant %s", got, c.want)
		}
		if !w.succeeded {
			t.Error("the capture did not succeed")
		}
	}
}

// TestEqualDecisionsForBothDonors: returning and leaving donors have equal decisions before the reservation, from the
// order to the copy, and after the release. Faults of calls there need only one kind of donor.
func TestEqualDecisionsForBothDonors(t *testing.T) {
	tried := map[string]int{}
	for _, f := range everywhere(adversities(testing.Short())).facts {
		open := !f.Failed && !f.Deleting
		var where string
		switch {
		case f.Leaving.Added:
			continue
		case !f.isHeld() && !f.MustBoot():
			where = "before it is held"
		case open && f.Disk.Touched && f.isHeld() && !f.Hold.Returning && f.Image.Version == Absent && f.Image.Snapshot == Absent:
			where = "from the order to the copy"
		case open && !f.isHeld() && f.Image.Version != Absent:
			where = "published"
		default:
			continue
		}
		tried[where]++
		want := Next(f)
		for _, leaves := range []bool{false, true} {
			for _, growFirst := range []bool{false, true} {
				for _, replacement := range []Replacement{NoReplacement, ReplacementWanted, ReplacementAwaited, ReplacementReady, ReplacementLate} {
					other := f
					other.Leaving.Replaced, other.Leaving.GrowFirst, other.Leaving.Replacement = leaves, growFirst, replacement
					if got := Next(other); got != want {
						t.Fatalf("%s: %s, and %s for %+v", where, want, got, other)
					}
				}
			}
		}
	}
	if tried["before it is held"] == 0 || tried["from the order to the copy"] == 0 || tried["published"] == 0 {
		t.Errorf("worlds that were tried: %v", tried)
	}
}

// TestTheCourseIsDocumented: the page on architecture lists the stages in their order.
func TestTheCourseIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/contribute/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(page)
	for _, s := range course {
		_, after, found := strings.Cut(rest, "| "+s.name+" |")
		if !found {
			t.Fatalf("the page does not list the stage %q after the stages before", s.name)
		}
		row, _, _ := strings.Cut(after, "\n")
		if parts := strings.Count(row, ",") + 1; parts != len(s.parts) {
			t.Errorf("the page lists %d parts of the stage %q, want %d", parts, s.name, len(s.parts))
		}
		rest = after
	}
}
