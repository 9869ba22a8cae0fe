package plan

// Decisions without answers of a cloud, or of the management cluster that keeps the recipe.

// WithoutCloud decides from the Node, its holder, the record and the deadlines. The reservation stays, because only the cloud
// can undo the protection. A donor with an unchanged disk takes pods again.
func WithoutCloud(f Facts) Decision {
	switch {
	case f.Patch == PatchUnderWay:
		return do(PatchDonor) // needs the cluster alone
	case f.Lock != Ours || f.CordonRestored || f.Node != NodeReady || f.mustRemove() || f.Added && (f.Failed || f.Deleting):
		return wait(ForCloud)
	case f.MustBoot():
		if f.Returning && f.Rebooted {
			return do(Serve)
		}
		return wait(ForCloud)
	case f.Failed, f.Deleting:
		return do(Serve)
	case f.Overdue:
		return fail(DeadlineExceeded)
	}
	return wait(ForCloud)
}
