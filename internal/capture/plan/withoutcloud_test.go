package plan

import (
	"slices"
	"testing"
)

// inCluster are the facts from the cluster alone.
func (f Facts) inCluster() Facts {
	hold, donor := f.Hold, f.Donor
	hold.Protected, hold.ProtectionRestored, donor.Power = false, false, PowerUnread
	return Facts{
		Deleting: f.Deleting, Failed: f.Failed, Unrecorded: f.Unrecorded, Hold: hold, Donor: donor, Disk: DiskFacts{Touched: f.Disk.Touched},
		Leaving: LeavingFacts{Replaced: f.Leaving.Replaced, GrowFirst: f.Leaving.GrowFirst, Added: f.Leaving.Added},
	}
}

// blindly returns the error of a decision without a cloud, or an empty text.
func blindly(w model, d Decision) string {
	for _, p := range unseenProperties {
		if !p.holds(w, d) {
			return "unseen: " + p.name
		}
	}
	return ""
}

// idle reports whether no step is left for a donor that can serve, by the facts of the cluster.
func (w model) idle() bool {
	f := w.f
	if f.Hold.Lock != Ours || f.Donor.Node != NodeReady || w.isRemoved() || f.Donor.Patch == PatchUnderWay {
		return false
	}
	if f.MustBoot() {
		return f.Hold.Returning && f.Donor.Rebooted
	}
	if f.Leaving.Added && (f.Failed || f.Deleting) {
		return false // the donor is removed next
	}
	return f.Hold.Overdue || f.Failed || f.Deleting
}

var unseenProperties = []property{
	{name: "a capture waits if only the cloud can return the donor", holds: func(w model, d Decision) bool {
		return d.Do == Wait || d.Do == Serve || d.Do == Fail || d.Do == PatchDonor
	}},
	{name: "only a patch that has begun goes on", holds: func(w model, d Decision) bool { return (d.Do == PatchDonor) == (w.f.Donor.Patch == PatchUnderWay) }},
	{name: "only a donor that nothing is to be done with serves", holds: func(w model, d Decision) bool { return d.Do != Serve || w.idle() }},
	{
		name:  "a disturbed donor does not serve before it went through a boot",
		holds: func(w model, d Decision) bool { return d.Do != Serve || !w.disturbed || w.booted },
	},
	{name: "the end is decided before a donor serves", holds: func(w model, d Decision) bool {
		return d.Do != Serve || w.f.Failed || w.f.Deleting || w.f.Hold.Returning
	}},
	{name: "only a deadline ends a capture", holds: func(w model, d Decision) bool {
		return d.Do != Fail || d.Why == DeadlineExceeded && w.f.Hold.Overdue && !w.f.MustBoot() && !w.f.Failed && !w.f.Deleting
	}},
	{
		name:  "promptness: a donor that could serve is not kept from it",
		holds: func(w model, d Decision) bool { return d.Do != Wait || !w.idle() || w.f.Hold.CordonRestored },
	},
}

// unseenMutants misread the facts of the cluster.
var unseenMutants = []mutant{
	{"keeps the cordon until the cloud answers", func(Facts) Decision { return wait(ForCloud) }},
	{"keeps the cordon for as long as no verdict was written down", func(f Facts) Decision {
		if d := WithoutCloud(f); d.Do != Fail {
			return d
		}
		return wait(ForCloud)
	}},
	{"serves before the verdict", func(f Facts) Decision {
		if d := WithoutCloud(f); d.Do != Fail {
			return d
		}
		return do(Serve)
	}},
	{"releases what the cloud still holds", func(f Facts) Decision {
		if d := WithoutCloud(f); d.Do != Serve {
			return d
		}
		return do(Release)
	}},
	{"serves with the disk that was touched", func(f Facts) Decision { f.Disk.Touched, f.Donor.MustLeaveBoot = false, false; return WithoutCloud(f) }},
	{"serves in the boot that it must leave", func(f Facts) Decision { f.Donor.Rebooted = true; return WithoutCloud(f) }},
	{"serves while its disk is needed", func(f Facts) Decision { f.Hold.Returning = true; return WithoutCloud(f) }},
	{"serves though it leaves", func(f Facts) Decision {
		f.Leaving.Replaced = false
		f.Hold.Returning, f.Donor.Rebooted = f.Hold.Returning || f.Failed, f.Donor.Rebooted || f.Failed
		return WithoutCloud(f)
	}},
	{"serves on a Node's last word", func(f Facts) Decision {
		if f.Donor.Node == NodeNotReady {
			f.Donor.Node = NodeReady
		}
		return WithoutCloud(f)
	}},
	{"serves another holder's node", func(f Facts) Decision {
		if f.Hold.Lock == Theirs {
			f.Hold.Lock = Ours
		}
		return WithoutCloud(f)
	}},
	{"keeps a patch waiting for the cloud", func(f Facts) Decision {
		if d := WithoutCloud(f); d.Do != PatchDonor {
			return d
		}
		return wait(ForCloud)
	}},
	{"serves during the patch", func(f Facts) Decision {
		if f.Donor.Patch == PatchUnderWay {
			f.Donor.Patch = NoPatch
		}
		return WithoutCloud(f)
	}},
	{"serves an added donor at its end", func(f Facts) Decision {
		f.Leaving.Added = f.Leaving.Added && !f.Failed && !f.Deleting
		return WithoutCloud(f)
	}},
	{"ends a capture that has time", func(f Facts) Decision { f.Hold.Overdue = true; return WithoutCloud(f) }},
}

// TestWrongBlindPlannersAreCaught proves those properties.
func TestWrongBlindPlannersAreCaught(t *testing.T) {
	for _, m := range unseenMutants {
		t.Run(m.name, func(t *testing.T) {
			e := explore(Next, m.next, slices.Concat(returningDonors(), leavingDonors(), pioneers(), addedDonors()), adversities(true))
			if e.bad == nil {
				t.Fatal("no property noticed")
			}
			t.Logf("caught after %d adverse events by: %s", e.adverse, e.bad.property)
		})
	}
}
