package plan

// Decisions without answers of a cloud, or of the management cluster that keeps the recipe.

// WithoutCloud decides from the Node, its holder, the record and the deadlines. The reservation stays, because only the cloud
// can undo the protection. A donor with an unchanged disk takes pods again.
func WithoutCloud(f Facts) Decision {
	switch {
	case f.Donor.Patch == PatchUnderWay:
		return do(PatchDonor) // needs the cluster alone
	case f.Copy.Wanted && f.Donor.Patch == PatchDone:
		return wait(ForCloud) // the pioneer serves
	case f.Hold.Lock != Ours || f.Hold.CordonRestored || f.Donor.Node != NodeReady:
		return wait(ForCloud)
	case f.MustBoot():
		if f.Hold.Returning && f.Donor.Rebooted {
			return do(Serve)
		}
		return wait(ForCloud)
	case f.Failed, f.Deleting:
		return do(Serve)
	case f.Hold.Overdue:
		return fail(DeadlineExceeded)
	}
	return wait(ForCloud)
}
