package plan

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/plantest"
)

// inCluster are the facts from the cluster alone.
func (w model) inCluster() Facts {
	f := w.f
	f.Hold.Protected, f.Hold.ProtectionRestored, f.Donor.Power = false, false, PowerUnread
	return Facts{
		Deleting: f.Deleting, Failed: f.Failed, Unrecorded: f.Unrecorded, Hold: f.Hold, Donor: f.Donor, Disk: DiskFacts{Touched: f.Disk.Touched},
	}
}

// idle reports whether no step is left for a donor that can serve, by the facts of the cluster.
func (w model) idle() bool {
	f := w.f
	if f.Hold.Lock != Ours || f.Donor.Node != NodeReady || f.Donor.Patch == PatchUnderWay {
		return false
	}
	if f.MustBoot() {
		return f.Hold.Returning && f.Donor.Rebooted
	}
	return f.Hold.Overdue || f.Failed || f.Deleting
}

var besideRules = []rule{
	that("a capture waits if only the cloud can return the donor", "", func(w model, d Decision) bool {
		return d.Do == Wait || d.Do == Serve || d.Do == Fail || d.Do == PatchDonor
	}),
	that("only a patch that has begun goes on", "", func(w model, d Decision) bool {
		return (d.Do == PatchDonor) == (w.f.Donor.Patch == PatchUnderWay)
	}),
	that("only a donor that nothing is to be done with serves", "", func(w model, d Decision) bool { return d.Do != Serve || w.idle() }),
	that("a disturbed donor does not serve before it went through a boot", "", func(w model, d Decision) bool {
		return d.Do != Serve || !w.disturbed || w.booted
	}),
	that("the end is decided before a donor serves", "", func(w model, d Decision) bool {
		return d.Do != Serve || w.f.Failed || w.f.Deleting || w.f.Hold.Returning
	}),
	that("only a deadline ends a capture", "", func(w model, d Decision) bool {
		return d.Do != Fail || d.Why == DeadlineExceeded && w.f.Hold.Overdue && !w.f.MustBoot() && !w.f.Failed && !w.f.Deleting
	}),
	that("promptness: a donor that could serve is not kept from it", "", func(w model, d Decision) bool {
		return d.Do != Wait || !w.idle() || w.f.Hold.CordonRestored
	}),
}

// TestWrongBlindPlannersAreCaught: each misreads the facts of the cluster, and breaks a rule beside the right planner.
func TestWrongBlindPlannersAreCaught(t *testing.T) {
	with := func(change func(*Facts)) planner { return plantest.With(WithoutCloud, change) }
	instead := func(due Action, wrong Decision) planner { return plantest.Instead(WithoutCloud, due, wrong) }
	plantest.Catch(t, wrong{
		"keeps the cordon until the cloud answers":                    func(Facts) Decision { return wait(ForCloud) },
		"keeps the cordon for as long as no verdict was written down": instead(Fail, wait(ForCloud)),
		"serves before the verdict":                                   instead(Fail, do(Serve)),
		"releases what the cloud still holds":                         instead(Serve, do(Release)),
		"serves with the disk that was touched":                       with(func(f *Facts) { f.Disk.Touched, f.Donor.MustLeaveBoot = false, false }),
		"serves in the boot that it must leave":                       with(func(f *Facts) { f.Donor.Rebooted = true }),
		"serves while its disk is needed":                             with(func(f *Facts) { f.Hold.Returning = true }),
		"serves on a Node's last word":                                with(mistaken(nodeOf, NodeNotReady, NodeReady)),
		"serves another holder's node":                                with(mistaken(lockOf, Theirs, Ours)),
		"keeps a patch waiting for the cloud":                         instead(PatchDonor, wait(ForCloud)),
		"serves during the patch":                                     with(mistaken(patchOf, PatchUnderWay, NoPatch)),
		"ends a capture that has time":                                with(func(f *Facts) { f.Hold.Overdue = true }),
	}, func(next planner) *plantest.Exploration[model, Facts, Action, Reason] {
		m := world(returningDonors(), pioneers())
		m.Beside.Next = next
		return m.Explore(Next, adversities(true))
	})
}
