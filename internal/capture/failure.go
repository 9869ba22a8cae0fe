package capture

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// CloudRefused is the reason of a failure: the cloud refuses the next step while the donor waits.
const CloudRefused = "CloudRefused"

// failure returns the reason and the message of the capture's end, with object and remedy.
func failure(w *observed, d plan.Decision) *v1alpha1.Failure {
	if d.Do == plan.Refuse {
		return refusal(w)
	}
	f := &v1alpha1.Failure{Reason: string(d.Why)}
	f.Message, f.CloudError = w.sentence(d.Why)
	f.Message += aftermath(w)
	return f
}

// refusal joins all refusals of the preflight. The first refusal gives the reason.
func refusal(w *observed) *v1alpha1.Failure {
	if len(w.refusals) == 0 && w.over != "" {
		return &v1alpha1.Failure{Reason: "Reserved", Message: fmt.Sprintf("node %s carries %s: see who writes annotation %s, then run `kamino release-node %s --node-only`",
			w.p.Spec.Donor.NodeName, w.over, v1alpha1.ReservationAnnotation, w.p.Spec.Donor.NodeName)}
	}
	if len(w.refusals) == 0 {
		return &v1alpha1.Failure{Reason: "Reserved", Message: fmt.Sprintf("node %s is reserved by another capture: wait until it is done", w.p.Spec.Donor.NodeName)}
	}
	sentences := make([]string, len(w.refusals))
	for i, r := range w.refusals {
		sentences[i] = r.Message
	}
	return &v1alpha1.Failure{Reason: w.refusals[0].Reason, Message: strings.Join(sentences, "; ")}
}

// sentence returns the message for a failure of package plan, and the cloud's own text, if any.
func (w *observed) sentence(why plan.Reason) (message, cloudError string) {
	n, version, pool := w.p.Spec.Donor.NodeName, w.p.Spec.Version, w.p.Spec.Pool
	limits := w.p.Spec.Settings.Defaulted()
	if text := departureSentence(w, why); text != "" {
		return text, ""
	}
	switch why {
	case plan.LookFailed:
		return w.lookWhy, ""
	case plan.DonorGone:
		return w.donorGone(), ""
	case plan.DonorStopped:
		return fmt.Sprintf("somebody stopped the instance of node %s before its disk was generalized; it is started again: see who, then try again", n), ""
	case plan.RecordLost:
		return fmt.Sprintf("the record of prototype %s was removed by somebody else while node %s was being captured: see who changes annotation %s, then try again", w.p.Name, n, v1alpha1.RecordAnnotation), ""
	case plan.ReservationLost:
		return fmt.Sprintf("%s while it was being captured: see who changes annotation %s, then try again", w.reservationLost(), v1alpha1.ReservationAnnotation), ""
	case plan.DeadlineExceeded:
		return fmt.Sprintf("node %s was out of service for longer than the deadline of %s without a snapshot: see which step took long, or allow a later deadline", n, limits.OutOfService.Deadline.Duration), ""
	case plan.DrainTimeout:
		return fmt.Sprintf("node %s was not drained within %s; left: %s", n, limits.Drain.Timeout.Duration, w.leftovers()), ""
	case plan.Interrupted:
		return fmt.Sprintf("the capture of node %s was broken off after its disk had been touched and the donor given back: try again", n), ""
	case plan.DonorRestarted:
		return fmt.Sprintf("node %s was started by somebody else between its generalization and its snapshot, so the disk is no longer proven: keep other tools from starting it, then try again", n), ""
	case plan.OrderOutdated:
		return fmt.Sprintf("node %s was ordered generalized by an earlier version of Kamino, whose proof could have been written by others than its pod, so its disk is not used: capture it again", n), ""
	case plan.GeneralizeFailed:
		return fmt.Sprintf("pod %s did not generalize node %s: %s", podName(w.p), n, w.podSentence()), ""
	case plan.NotProven:
		return fmt.Sprintf("node %s went off without a proof that its disk is generalized, so it is not used: %s", n, w.missing()), ""
	case plan.ProofLost:
		return fmt.Sprintf("the proof of prototype %s was removed or changed by somebody else, so what was made of node %s is not used: see who changes annotation %s, then try again", w.p.Name, n, v1alpha1.ProofAnnotation), ""
	case plan.DonorNotReady:
		return fmt.Sprintf("node %s was started again and did not become Ready within %s past the deadline; it is given back as it is and no image is made of it: look at its boot log", n, limits.OutOfService.ReadyTimeout.Duration), ""
	}
	return w.artifactSentence(why, version, pool)
}

// departureSentence returns the message if a failure differs for a leaving donor; else an empty text.
func departureSentence(w *observed, why plan.Reason) string {
	n, limits := w.p.Spec.Donor.NodeName, w.p.Spec.Settings.Defaulted().OutOfService
	_, taken := w.takenAt()
	switch {
	case !w.facts.Leaves:
	case why == plan.SuccessorFailed:
		return fmt.Sprintf("the node that is to take the place of node %s was not Ready within %s, so that node %s was not taken: see why new nodes of pool %s do not join, then try again", n, limits.ReadyTimeout.Duration, n, w.p.Spec.Pool)
	case why == plan.DeadlineExceeded && !taken:
		return fmt.Sprintf("node %s was reserved for longer than %s and not taken: see what it waited for, then try again", n, limits.Deadline.Duration+limits.ReadyTimeout.Duration)
	case why == plan.Interrupted:
		return fmt.Sprintf("the capture of node %s was broken off after its disk had been touched, and the node was removed: capture another one", n)
	}
	return ""
}

func (w *observed) artifactSentence(why plan.Reason, version, pool string) (message, cloudError string) {
	switch why {
	case plan.SnapshotTaken:
		return fmt.Sprintf("snapshot %s exists and is not of this capture: delete it, then try again", w.snapshot.ID), ""
	case plan.SnapshotFailed:
		return fmt.Sprintf("the cloud could not make the snapshot of node %s: %s", w.p.Spec.Donor.NodeName, orNothing(w.snapshot.Error)), w.snapshot.Error
	case plan.SnapshotLost:
		return fmt.Sprintf("snapshot %s was deleted by somebody else before the image was made of it: try again", w.snapshot.ID), ""
	case plan.VersionTaken:
		return fmt.Sprintf("version %s of pool %s exists and is not of this capture: a pool gets one version a day, so try again tomorrow (UTC), or retire that version first", version, pool), ""
	case plan.ImageFailed:
		return fmt.Sprintf("the cloud could not make version %s of pool %s: %s", version, pool, orNothing(w.image.Error)), w.image.Error
	case plan.ImageLost:
		return fmt.Sprintf("version %s of pool %s was deleted by somebody else before the recipe pointed at it: try again", version, pool), ""
	case plan.Quarantined:
		return fmt.Sprintf("version %s of pool %s is quarantined (%s) and will not be used", version, pool, w.image.Tags[cloud.TagQuarantined]), ""
	case plan.TrialFailed, plan.TrialInconclusive:
		return trialSentence(w, why), toldOf(w.record.Trial)
	case plan.PromotionStale:
		return trialSentence(w, why), ""
	case plan.RecipeTaken:
		if w.poolGone {
			return fmt.Sprintf("pool %s is not there any more, so that nothing builds nodes from version %s, which is complete and kept: delete its image, or if the pool is there after all, `kamino promote %s %s` points it at the version", pool, version, pool, version), ""
		}
		return fmt.Sprintf("somebody pointed the recipe of pool %s at %s while version %s was being made, and that is left as it is: the version is complete and kept; `kamino promote %s %s` points the pool at it",
			pool, w.recipe.Recipe.Image, version, pool, version), ""
	case plan.Superseded:
		return fmt.Sprintf("the recipe of pool %s already points at the newer version %s; version %s is kept and not used", pool, w.recipe.Recipe.Version, version), ""
	}
	return string(why), ""
}

func (w *observed) reservationLost() string {
	if w.over == "" {
		return fmt.Sprintf("the reservation of node %s was removed by somebody else", w.p.Spec.Donor.NodeName)
	}
	return fmt.Sprintf("over the reservation of node %s stands that of %s", w.p.Spec.Donor.NodeName, w.over)
}

func (w *observed) donorGone() string {
	n := w.p.Spec.Donor.NodeName
	if w.facts.Power == plan.InstanceGone {
		return fmt.Sprintf("the instance of node %s is gone, removed while it was being captured: capture another node", n)
	}
	return fmt.Sprintf("node %s was deleted by somebody while it was being captured, and its instance is there: see who deletes nodes, and capture another one", n)
}

// aftermath describes the fate of a leaving donor and of its pool, as the end of a failure's message.
func aftermath(w *observed) string {
	switch {
	case !w.facts.Leaves || !w.held():
		return ""
	case w.facts.Touched && w.facts.GrowFirst:
		return fmt.Sprintf("; node %s cannot join again, so that its instance is removed, and pool %s has grown by one node before", w.p.Spec.Donor.NodeName, w.p.Spec.Pool)
	case w.facts.Touched:
		return fmt.Sprintf("; node %s cannot join again, so that its instance is removed, and pool %s gets another node in its place", w.p.Spec.Donor.NodeName, w.p.Spec.Pool)
	}
	return kept(w)
}

// kept reports that the pool has grown for a donor that was not captured, as the end of a message; else an empty text.
func kept(w *observed) string {
	d := w.departure()
	if !w.facts.GrowFirst || d.Target == 0 || d.TakenAt == nil && w.capacity > 0 && w.capacity < d.Target {
		return ""
	}
	return fmt.Sprintf("; the node that pool %s has grown by for it stays: take it away if the pool is not to keep it", w.p.Spec.Pool)
}

func orNothing(text string) string {
	if text == "" {
		return "it gave no reason"
	}
	return text
}

func (w *observed) leftovers() string {
	if len(w.blocked) > 0 {
		return w.blocked[0].String() + "; raise what the budget allows, wait for a better moment, or use force"
	}
	return strings.Join(append(w.left.Names(), w.left.Stuck...), ", ") + "; see why they do not end, or use force"
}

// missing explains the missing proof.
func (w *observed) missing() string {
	if w.disbelieved != "" {
		return w.disbelieved + "; see who can write there"
	}
	return "see the log of pod " + podName(w.p)
}

func (w *observed) podSentence() string {
	if w.unproven != "" {
		return w.unproven
	}
	if w.pod == nil {
		return "it is gone"
	}
	return w.podTrouble()
}

// verdictOf ends the capture after an error of the cloud if a wait would keep the donor out of service. All other
// errors are retried.
func (e ending) verdictOf(w *observed, d plan.Decision, err error) error {
	var c *cloud.Error
	if errors.As(err, &c) && c.Kind == cloud.Refused && d.Do == plan.Promote {
		e.unpromoted(w, c)
		return nil
	}
	ahead := d.Do == plan.Enlarge && !w.removing() // the reserved donor waits for the growth
	waiting := ahead || d.Do == plan.Protect || d.Do == plan.TakeSnapshot || d.Do == plan.Stop && !w.facts.Failed && !w.facts.Deleting
	if !errors.As(err, &c) || !waiting && d.Do != plan.Publish {
		return err
	}
	if !ends(c.Kind, d.Do == plan.Publish, ahead) {
		return err
	}
	e.fail(w, &v1alpha1.Failure{Reason: CloudRefused, Message: c.Error() + aftermath(w), CloudError: c.Message})
	return nil
}

// ends reports whether an error of this kind ends the capture. A missing permission is awaited only after the donor's
// return. A refused growth of the pool ends the capture before the drain.
func ends(kind cloud.Kind, back, ahead bool) bool {
	switch kind {
	case cloud.Denied, cloud.Unauthenticated:
		return !back
	case cloud.Invalid, cloud.Unsupported, cloud.QuotaExceeded:
		return true
	case cloud.Refused:
		return ahead
	case cloud.NotFound, cloud.Conflict, cloud.Throttled, cloud.Unavailable:
	}
	return false
}

// unpromoted ends a capture whose promotion would change running nodes. The pool's upgrade policy may be intended, and
// a waiting capture would block later captures of the pool. The version stays.
func (e ending) unpromoted(w *observed, c *cloud.Error) {
	e.fail(w, &v1alpha1.Failure{Reason: c.Code, Message: fmt.Sprintf(
		"version %s of pool %s is complete and no recipe points at it, because that would change nodes that run: %s. The version is kept; point the pool at it later with `kamino promote %s %s`",
		w.p.Spec.Version, w.p.Spec.Pool, c.Message, w.p.Spec.Pool, w.p.Spec.Version)})
}

// fail records the failure. The release of the donor follows.
func (e ending) fail(w *observed, f *v1alpha1.Failure) {
	w.p.Status.Failure = f
	enter(&w.p.Status, v1alpha1.PhaseGivingBack, e.now())
	reportConditions(w.p, plan.Decision{Do: plan.Fail}, e.now())
	e.event(w, corev1.EventTypeWarning, f.Reason, "%s", f.Message)
}
