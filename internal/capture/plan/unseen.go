package plan

// What is done where the look did not get beyond the cluster, because a cloud, or the management cluster that a recipe is kept
// in, does not answer.

// Unseen decides on what the cluster alone tells of the donor: its Node, who holds that, what was written down, and for how long.
// All else of the facts is unknown. Nothing is given up that only the cloud can give back, so the lock stays; but a donor that
// nothing is to be done with any more, and whose disk is what it is to be, takes pods again. Who looks later finds the end decided,
// and goes on with it.
func Unseen(f Facts) Decision {
	switch {
	case f.Lock != Ours || f.Serves || f.Node != NodeReady || f.leaving():
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
