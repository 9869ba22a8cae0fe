package capture

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// failure returns the reason and the message of the capture's end, with object and remedy.
func failure(w *pass, d plan.Decision) *v1alpha1.Failure {
	if d.Do == plan.Refuse {
		return refusal(w)
	}
	message := cmp.Or(copyFailureMessage(w, d.Why), patchFailureMessage(w, d.Why),
		donorFailureMessage(w, d.Why), artifactFailureMessage(w, d.Why), string(d.Why))
	return &v1alpha1.Failure{Reason: string(d.Why.Public()), Message: message, CloudError: cloudError(w, d.Why)}
}

// refusal joins all refusals of the preflight. The first refusal gives the reason.
func refusal(w *pass) *v1alpha1.Failure {
	if len(w.preflight.refusals) == 0 && w.donor.otherHolder != "" {
		return &v1alpha1.Failure{
			Reason: "Reserved",
			Message: fmt.Sprintf("node %s carries %s. Find the client that writes annotation %s, then run `kamino return-node %s --node-only`",
				w.p.Spec.Donor.NodeName, w.donor.otherHolder, v1alpha1.ReservationAnnotation, w.p.Spec.Donor.NodeName),
		}
	}
	if len(w.preflight.refusals) == 0 {
		return &v1alpha1.Failure{
			Reason:  "Reserved",
			Message: fmt.Sprintf("node %s is reserved by another capture. Try again after the end of that capture", w.p.Spec.Donor.NodeName),
		}
	}
	sentences := make([]string, len(w.preflight.refusals))
	for i, r := range w.preflight.refusals {
		sentences[i] = r.Message
	}
	return &v1alpha1.Failure{Reason: w.preflight.refusals[0].Reason, Message: strings.Join(sentences, "; ")}
}

// cloudError is the cloud's own text about a failure of package plan; empty without one.
func cloudError(w *pass, why plan.Reason) string {
	switch why {
	case plan.SnapshotFailed:
		return w.image.snapshot.Error
	case plan.ImageFailed:
		return w.image.version.Error
	case plan.TrialFailed, plan.TrialInconclusive:
		return trial.CloudMessage(w.record.Trial)
	case plan.WorkshopGone, plan.WorkshopNotJoined:
		return w.copy.workshop.Trouble
	}
	return ""
}

// copyFailureMessage returns the message for a failure of a capture by copy; else an empty text. The donor serves in any case.
func copyFailureMessage(w *pass, why plan.Reason) string {
	n, pool := w.p.Spec.Donor.NodeName, w.p.Spec.Pool
	if !w.facts.Copy.Wanted {
		return ""
	}
	switch why {
	case plan.DonorBusy:
		return fmt.Sprintf("node %s did not become quiet: %s. %s. Capture the node when the installation or the pull has ended, or capture another node",
			n, momentMessage(w), changed(w))
	case plan.QuiesceNotDone:
		return fmt.Sprintf("the disk of node %s could not be copied while the node serves: %s. %s. Capture another node",
			n, momentMessage(w), changed(w))
	case plan.WorkshopNotJoined:
		return fmt.Sprintf("the workshop of pool %s was not Ready within %s, so node %s was not copied: %s. New nodes of the pool may have the same trouble: find the cause, then %s",
			pool, workshopLimit, n, w.copy.late, retryRemedy(w))
	case plan.WorkshopGone:
		if w.facts.Copy.Workshop == plan.WorkshopFailed {
			return fmt.Sprintf("the cloud did not build the workshop of pool %s (%s), and nothing was published: %s",
				pool, orNothing(w.copy.workshop.Trouble), retryRemedy(w))
		}
		return fmt.Sprintf("%d workshops of pool %s were lost during the capture, and nothing was published; of the last, %s. "+
			"Find out what removes or stops such instances, then %s",
			w.copyRecord().Workshops, pool, cmp.Or(workshopLoss(w), w.copyRecord().Message, "nothing is known"), retryRemedy(w))
	case plan.WorkshopRestarted:
		return fmt.Sprintf("%d workshops of pool %s were lost during the capture. The last may have restarted from the copy of node %s, "+
			"which was attached: %s. Kamino discards both and publishes nothing. Let nothing reboot a workshop (%s), then %s",
			w.copyRecord().Workshops, pool, n, w.copy.late, page.Kured, retryRemedy(w))
	case plan.CopyUnusable:
		return fmt.Sprintf("no usable copy of the disk of node %s was made in %d attempts: %s. Capture the node when no packages are installed there, "+
			"or capture another node",
			n, w.copyRecord().Try, orNothing(copyTrouble(w)))
	case plan.DeadlineExceeded:
		if servesForPatch(w) {
			return fmt.Sprintf("the patch of node %s could not begin within %s, because another node was out of service; the node serves. Find the cause, then %s",
				n, copyLimit, retryPatch(w))
		}
		return fmt.Sprintf("the copy of node %s was not published within %s; the node served meanwhile. Find the slow step with `kamino describe %s`, then %s",
			n, copyLimit, w.p.Name, retryRemedy(w))
	case plan.GeneralizeFailed:
		return fmt.Sprintf("the copy of node %s was not generalized: %s", n, podFailureMessage(w))
	case plan.ReservationLost:
		if !w.p.Spec.StaysInService() {
			return "" // the reservation on the Node
		}
		return fmt.Sprintf("%s during the capture, and nothing was changed. Find the client that changes the Leases of Kamino, then %s",
			reservationLostMessage(w), retryRemedy(w))
	case plan.DonorStopped:
		return fmt.Sprintf("another client stopped the instance of node %s before its disk was copied. Find that client, start the instance, then %s",
			n, retryRemedy(w))
	}
	return ""
}

// workshopLoss is why the workshop cleans no copy any more; empty for one that is not lost.
func workshopLoss(w *pass) string {
	switch w.facts.Copy.Workshop {
	case plan.WorkshopLost:
		return cmp.Or(w.copy.workshop.Trouble, "the instance is gone or off")
	case plan.WorkshopAway:
		return w.copy.late
	default:
		return ""
	}
}

// changed is what a failed copy leaves on its donor.
func changed(w *pass) string {
	if w.facts.Donor.Patch == plan.PatchDone {
		return "The node is patched, and serves"
	}
	return "Nothing was changed"
}

// momentMessage is why the donor's disk did not become quiet.
func momentMessage(w *pass) string {
	switch {
	case w.copy.moment != nil && w.copy.moment.Message != "":
		return w.copy.moment.Message
	case w.disk.ignoredReport != "":
		return w.disk.ignoredReport
	case w.disk.pod != nil && w.podTrouble() != "":
		return w.podTrouble()
	}
	return fmt.Sprintf("pod %s did not report within %s", podName(w.p), quietLimit)
}

// copyTrouble is why the last copy cannot be used.
func copyTrouble(w *pass) string {
	switch u := w.p.Status.Unproven; {
	case w.record.Answers(u, w.p.UID):
		return u.Message
	case w.copy.raw.Error != "":
		return w.copy.raw.Error
	case w.copy.disk.Error != "":
		return w.copy.disk.Error
	}
	r := w.copyRecord()
	if r.Message == "" && r.Try > 0 && !r.Accepted {
		return "Kamino did not see the cloud's answer while the disk stood still, because the API server or the cloud answers slowly"
	}
	return r.Message
}

// donorFailureMessage returns the message for a failure of donor or disk; else an empty text.
func donorFailureMessage(w *pass, why plan.Reason) string {
	n, limits := w.p.Spec.Donor.NodeName, w.p.Spec.Settings.Defaulted()
	switch why {
	case plan.DiskCheckFailed:
		return w.disk.obstacle
	case plan.DonorGone:
		return donorGoneMessage(w)
	case plan.DonorStopped:
		if !w.isHeld() {
			return fmt.Sprintf(
				"another client stopped the instance of node %s before the node was reserved, and Kamino changed nothing. Find that client, start the instance, then %s",
				n, retryRemedy(w))
		}
		return fmt.Sprintf(
			"another client stopped the instance of node %s before the generalization; Kamino starts the instance again. Find that client, then %s",
			n, retryRemedy(w))
	case plan.RecordLost:
		return lostRecordMessage(w)
	case plan.ReservationLost:
		return fmt.Sprintf("%s during the capture. Find the client that changes annotation %s, then %s",
			reservationLostMessage(w), v1alpha1.ReservationAnnotation, retryRemedy(w))
	case plan.DeadlineExceeded:
		return fmt.Sprintf(
			"node %s exceeded the deadline of %s out of service without a snapshot. Find the slow step with `kamino describe %s`, or raise settings.outOfService.deadline",
			n, limits.OutOfService.Deadline.Duration, w.p.Name)
	case plan.DrainTimeout:
		return drainMessage(w)
	case plan.Interrupted:
		return fmt.Sprintf("the capture of node %s was interrupted after the change of its disk, and the node was returned to service without a snapshot: %s",
			n, retryRemedy(w))
	case plan.DonorRestarted:
		return fmt.Sprintf(
			"another client started node %s between generalization and snapshot, so the disk is no longer proven. Keep other tools from starting the node, then %s",
			n, retryRemedy(w))
	case plan.OrderOutdated, plan.OrderGone:
		return orderMessage(w, why)
	case plan.GeneralizeFailed:
		return fmt.Sprintf("pod %s did not generalize node %s: %s", podName(w.p), n, podFailureMessage(w))
	case plan.NotProven:
		return fmt.Sprintf("node %s powered off without a proof of its generalization, so the disk is not used: %s", n, missingProofMessage(w))
	case plan.ProofLost:
		return fmt.Sprintf(
			"another client removed or changed the proof of prototype %s, so the copy of node %s is not used. Find the client that changes status.proof, then %s",
			w.p.Name, n, retryRemedy(w))
	case plan.DonorNotReady:
		return fmt.Sprintf(
			"node %s was started again, but did not become Ready within %s after the deadline. The node is returned as it is, without an image. Read its boot log",
			n, limits.OutOfService.ReadyTimeout.Duration)
	}
	return ""
}

// retryRemedy is the remedy of a new attempt.
func retryRemedy(w *pass) string {
	return fmt.Sprintf("run `kamino capture %s`", w.p.Spec.Donor.NodeName)
}

// reportOutrun completes the message of a failure that an outdated record has caused: the version that the record does not know
// is complete.
func reportOutrun(w *pass, d plan.Decision) {
	s := &w.p.Status
	if s.Failure == nil || d.Do == plan.Fail || d.Do == plan.Refuse || s.Image != nil || w.facts.Image.Version != plan.Complete {
		return
	}
	s.Failure.Message += fmt.Sprintf(
		"; but version %s of this capture is complete, so the record is older than the cloud, as after a restore of etcd. To see whether pool %s uses the version, run `kamino history %s`",
		w.p.Spec.Version, w.p.Spec.Pool, w.p.Spec.Pool)
}

// artifactFailureMessage returns the message for a failure of snapshot, version, trial or promotion; else an empty text.
func artifactFailureMessage(w *pass, why plan.Reason) string {
	version, pool := w.p.Spec.Version, w.p.Spec.Pool
	switch why {
	case plan.SnapshotOfOtherCapture:
		return fmt.Sprintf("snapshot %s exists, but belongs to another capture. Delete the snapshot, then %s", w.image.snapshot.ID, retryRemedy(w))
	case plan.SnapshotFailed:
		return fmt.Sprintf("the cloud could not create the snapshot of node %s: %s",
			w.p.Spec.Donor.NodeName, orNothing(w.image.snapshot.Error))
	case plan.SnapshotLost:
		return fmt.Sprintf("another client deleted snapshot %s before the image was complete: %s", w.image.snapshot.ID, retryRemedy(w))
	case plan.VersionOfOtherCapture:
		return fmt.Sprintf(
			"version %s of pool %s exists, but belongs to another capture. A pool gets one version a day: try again tomorrow (UTC), or first run `kamino delete-version %s %s`",
			version, pool, pool, version)
	case plan.ImageFailed:
		return fmt.Sprintf("the cloud could not create version %s of pool %s: %s", version, pool, orNothing(w.image.version.Error))
	case plan.ImageLost:
		return fmt.Sprintf("another client deleted version %s of pool %s before its promotion: %s", version, pool, retryRemedy(w))
	case plan.Quarantined:
		return fmt.Sprintf("version %s of pool %s is quarantined (%s), and no recipe may name the version",
			version, pool, w.image.version.Tags[cloud.TagQuarantined])
	case plan.TrialFailed, plan.TrialInconclusive, plan.PromotionStale:
		return trialFailureMessage(w, why)
	case plan.RecipeTaken:
		if w.promotion.isPoolDeleted {
			return fmt.Sprintf(
				"pool %s no longer exists, so no node uses version %s. The version is complete and kept: delete its image. If the pool exists after all, run `kamino promote %s %s`",
				pool, version, pool, version)
		}
		return fmt.Sprintf(
			"another client changed the recipe of pool %s to %s before version %s was complete. The recipe stays as it is, and the version is kept. To use the version, run `kamino promote %s %s`",
			pool, w.promotion.recipe.Recipe.Image, version, pool, version)
	case plan.Superseded:
		return fmt.Sprintf("the recipe of pool %s already names the newer version %s; version %s is kept, but not used",
			pool, w.promotion.recipe.Recipe.Version, version)
	}
	return ""
}

// orderMessage explains a NodeOrder that counts no more.
func orderMessage(w *pass, why plan.Reason) string {
	if why == plan.OrderGone {
		return fmt.Sprintf("another client deleted NodeOrder %s/%s, where the pod that cleans the disk would report. Find that client, then %s",
			w.record.Order.Namespace, podName(w.p), retryRemedy(w))
	}
	return fmt.Sprintf(
		"an earlier version of Kamino ordered the generalization of node %s. Other clients can write such a proof, so the disk is not used: %s",
		w.p.Spec.Donor.NodeName, retryRemedy(w))
}

func reservationLostMessage(w *pass) string {
	if w.donor.otherHolder == "" {
		return fmt.Sprintf("another client removed the reservation of node %s", w.p.Spec.Donor.NodeName)
	}
	return fmt.Sprintf("the reservation of node %s was overwritten by %s", w.p.Spec.Donor.NodeName, w.donor.otherHolder)
}

// donorGoneMessage distinguishes an instance that was removed, or will be, from a Node that someone deleted while its instance runs.
func donorGoneMessage(w *pass) string {
	n := w.p.Spec.Donor.NodeName
	if p := w.facts.Donor.Power; p == plan.On || p == plan.PowerUnread {
		runs := map[plan.Power]string{plan.On: ", but its instance runs"}[p]
		return fmt.Sprintf("another client deleted node %s during the capture%s. Find the client that deletes nodes, then capture another node", n, runs)
	}
	removed, remedy := "was removed", "Capture another node"
	if w.facts.Donor.Power != plan.InstanceGone {
		removed = "was stopped or removed, and the Node was deleted"
	}
	if r := w.donor.reservation; r != nil && r.Protection != "" && !w.p.Spec.Settings.CopiesDonor() {
		remedy = fmt.Sprintf("The node was out of service, so pool %s can be one node smaller than before. Raise its size by one if no autoscaler does, "+
			"then capture another node", w.p.Spec.Pool)
	}
	return fmt.Sprintf("the instance of node %s %s during the capture. %s", n, removed, remedy)
}

func drainMessage(w *pass) string {
	return cmp.Or(leavingMessage(w), fmt.Sprintf("node %s was not drained within %s; remaining: %s",
		w.p.Spec.Donor.NodeName, w.p.Spec.Settings.Defaulted().Drain.Timeout.Duration, remainingPodsMessage(w)))
}

func remainingPodsMessage(w *pass) string {
	if len(w.donor.blockedPods) > 0 {
		return w.donor.blockedPods[0].String() + ". Relax the budget, try again later, or set settings.drain.force"
	}
	return strings.Join(
		append(w.donor.remainingPods.Names(), w.donor.remainingPods.Stuck...),
		", ",
	) + ". Find out why the pods do not end, or set settings.drain.force"
}

// missingProofMessage explains the missing proof.
func missingProofMessage(w *pass) string {
	if w.disk.ignoredReport != "" {
		return w.disk.ignoredReport + ". Check which clients can change NodeOrders"
	}
	return "read the log of pod " + podName(w.p)
}

func podFailureMessage(w *pass) string {
	if w.disk.noProofReason != "" {
		return w.disk.noProofReason
	}
	if w.disk.pod == nil {
		return "the pod is gone"
	}
	return w.podTrouble()
}

// lostRecordMessage explains a removed or unreadable record.
func lostRecordMessage(w *pass) string {
	n := w.p.Spec.Donor.NodeName
	if _, err := v1alpha1.RecordOf(w.p); err != nil {
		return fmt.Sprintf("Kamino cannot read the record of prototype %s: %v. Find node %s with `kamino reservations`, which names the remedy, then %s",
			w.p.Name, err, n, retryRemedy(w))
	}
	return fmt.Sprintf("another client removed the record of prototype %s during the capture of node %s. Find the client that changes status.record, then %s",
		w.p.Name, n, retryRemedy(w))
}
