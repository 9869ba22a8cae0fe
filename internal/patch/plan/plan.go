// Package plan decides how Kamino patches one reserved node, and when a pool needs a pioneer.
//
// Next maps the facts about the node to one action: drain, order the patch, order the reboot, watch the node in service.
// The package is pure: no context, clock, client or log. Equal facts give equal decisions in every process and after
// every restart. The package does not capture the node, and knows no package manager.
package plan

// Next returns exactly one action or one wait.
func Next(f Facts) Decision {
	switch {
	case f.Failure != "":
		return end(f)
	case f.Node == NodeGone:
		return fail(NodeGoneAway)
	case f.Lock != Ours:
		return fail(ReservationLost)
	case f.Off && f.Ending:
		return fail(Stopped) // nothing works on the node, and nothing is awaited
	case f.Order == NoOrder:
		return prepare(f)
	case f.Result == NoResult:
		return awaitReport(f)
	case f.Result == Refused:
		return fail(PatchRefused)
	case f.Result == Incomplete:
		return fail(PatchFailed)
	case f.Result == Current:
		return unchanged(f)
	case !f.Rebooted:
		return reboot(f)
	default:
		return soak(f)
	}
}

// prepare leads to a drained, healthy node. Only a drained node is patched, because a package may restart the container
// runtime. Only a healthy node is patched, because a later problem is taken for a fault of the patches.
func prepare(f Facts) Decision {
	switch {
	case f.Ending:
		return fail(Stopped)
	case f.Overdue && f.Unhealthy:
		return fail(NodeUnhealthy)
	case f.Overdue:
		return fail(DrainTimeout)
	case f.Unhealthy:
		return wait(ForHealth)
	case !f.Cordoned:
		return do(Cordon)
	case !f.Drained:
		return do(Evict)
	case f.Node != NodeReady:
		return wait(ForNode)
	default:
		return do(OrderPatch)
	}
}

// awaitReport follows a recorded order until its report, also for a holder that ends: the unit of the patch runs on without
// its pod. A second pod finds the unit. A pod cannot report without its NodeOrder, nor start without the key of the NodeOrder, so that
// both are made again.
func awaitReport(f Facts) Decision {
	switch {
	case f.Reported:
		return do(Believe)
	case f.Rebooted:
		return fail(Interrupted)
	case f.Overdue:
		return fail(PatchTimeout)
	case f.Pod == PodStuck && f.OrderLeft:
		return do(DeleteOrder)
	case f.Pod != NoPod && !f.OrderLeft:
		return do(DeletePod)
	case f.Pod != NoPod && !f.PodKnown:
		return do(Adopt)
	case f.Pod == PodFailed:
		return do(DeletePod)
	case f.Pod == PodActive:
		return wait(ForReport)
	case f.Node != NodeReady:
		return wait(ForNode)
	case !f.OrderLeft:
		return do(OrderPatch)
	default:
		return do(RunPod)
	}
}

// unchanged ends a patch that found nothing to install. The node needs no reboot and no capture.
func unchanged(f Facts) Decision {
	if d, open := tidy(f); open {
		return d
	}
	return do(Finish)
}

// reboot leads from the report of the patch to another boot. The annotation comes first, so that a node with installed
// and unbooted packages is never taken for a patched node.
func reboot(f Facts) Decision {
	if f.Order == RebootOrder {
		return awaitReboot(f)
	}
	switch {
	case f.LevelQuarantined:
		return fail(LevelQuarantined)
	case !f.PendingMarked:
		return do(MarkPending)
	case f.Ending:
		return fail(Stopped)
	case f.Overdue:
		return fail(PatchTimeout)
	}
	if d, open := tidy(f); open {
		return d
	}
	switch {
	case !f.Cordoned:
		return do(Cordon)
	case !f.Drained:
		return do(Evict)
	case f.Node != NodeReady:
		return wait(ForNode)
	default:
		return do(OrderReboot)
	}
}

// awaitReboot follows a recorded reboot, also for a holder that ends: the reboot may come at any time.
func awaitReboot(f Facts) Decision {
	switch {
	case f.Overdue && f.Node == NodeReady:
		return fail(NotRebooted)
	case f.Overdue:
		return fail(RebootTimeout)
	case f.Pod == PodFailed:
		return do(DeletePod)
	case f.Pod == NoPod && f.Node == NodeReady:
		return do(RunPod)
	default:
		return wait(ForReboot)
	}
}

// soak returns the node to service under the new boot, and watches the node with real pods.
func soak(f Facts) Decision {
	switch {
	case f.LevelQuarantined:
		return fail(LevelQuarantined) // another client rebooted the node before the check
	case f.Soaked && f.PatchedMarked && !f.Ending && f.Pod == NoPod && !f.OrderLeft:
		return do(Finish)
	case f.Overdue:
		return fail(SoakFailed)
	case f.Node != NodeReady:
		return wait(ForReady)
	}
	if d, open := tidy(f); open {
		return d
	}
	switch {
	case !f.PatchedMarked:
		return do(MarkPatched)
	case f.Ending:
		return fail(Stopped)
	case f.Cordoned:
		return do(Uncordon)
	default:
		return wait(ForSoak)
	}
}

// tidy removes the pod and the NodeOrder. open is false if nothing is left.
func tidy(f Facts) (d Decision, open bool) {
	switch {
	case f.Pod != NoPod:
		return do(DeletePod), true
	case f.OrderLeft:
		return do(DeleteOrder), true
	}
	return Decision{}, false
}

// end records a failed level, marks the node, and removes leftovers. The holder then releases the node.
func end(f Facts) Decision {
	switch {
	case f.Failure.Blames() && f.hasLevel() && !f.LevelRecorded:
		return do(Quarantine)
	case f.mustMarkFailed() && !f.FailedMarked:
		return do(MarkFailed)
	case f.mustMarkPending() && !f.PendingMarked:
		return do(MarkPending)
	}
	if d, open := tidy(f); open {
		return d
	}
	return do(Close)
}
