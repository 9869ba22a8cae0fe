package capture

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
)

// announce records an event for the few actions that users wait for or must know of.
func (a eventRecorder) announce(w *pass, d plan.Decision) {
	node, version, pool := w.p.Spec.Donor.NodeName, w.p.Spec.Version, w.p.Spec.Pool
	switch d.Do {
	case plan.Bind:
		a.event(w, corev1.EventTypeNormal, "Reserved", "node %s has joined pool %s, and is reserved for version %s; the patch follows", w.donor.node.Name, pool, version)
	case plan.Reserve:
		if w.facts.Leaving.Replaced && w.facts.Leaving.GrowFirst {
			a.event(w, corev1.EventTypeNormal, "Reserved", "node %s is reserved for version %s of pool %s; the node serves until its replacement is Ready", node, version, pool)
		} else {
			a.event(w, corev1.EventTypeNormal, "Reserved", "node %s is reserved for version %s of pool %s; the drain follows", node, version, pool)
		}
		if w.preflight.kured.Unknown != "" {
			a.event(w, corev1.EventTypeWarning, KuredLockUnknown, "kured's lock is unreadable, and kured may reboot another node meanwhile: %s", w.preflight.kured.Unknown)
		}
	case plan.DeleteNode:
		a.event(w, corev1.EventTypeNormal, "Removed", "node %s does not return: its instance was removed from pool %s, and its Node object is deleted", node, pool)
	case plan.TakeSnapshot:
		a.event(w, corev1.EventTypeNormal, "Generalized", "node %s is generalized and powered off; its disk is copied next", node)
	case plan.Promote:
		a.event(w, corev1.EventTypeNormal, "Promoting", "the recipe of pool %s gets version %s%s", pool, version, compared(w.p.Status.Recipe))
	case plan.Succeed:
		a.event(w, corev1.EventTypeNormal, "Promoted", "new nodes of pool %s use the image of node %s%s", pool, node, compared(w.p.Status.Recipe))
	case plan.Refuse:
		a.event(w, corev1.EventTypeWarning, "Refused", "%s", w.p.Status.Failure.Message)
	case plan.Fail:
		a.event(w, corev1.EventTypeWarning, string(d.Why), "%s", w.p.Status.Failure.Message)
	default:
	}
}

// announceTrouble records an event when a capture begins to wait for a user's action. The end of a capture has its own
// event.
func (a eventRecorder) announceTrouble(before, p *v1alpha1.Prototype) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionStalled)
	is := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	if a.Recorder == nil || p.Status.Failure != nil && (is == nil || is.Reason == p.Status.Failure.Reason) || is == nil || is.Status != metav1.ConditionTrue || was != nil && was.Reason == is.Reason {
		return
	}
	a.Recorder.Eventf(p, nil, corev1.EventTypeWarning, is.Reason, "Capture", "%s", is.Message)
}

// ReportRejected is the reason of condition Generalized, and of an event, for a report on the NodeOrder that the pod did
// not sign.
const ReportRejected = "ReportRejected"

// announceReversible records once that no rollback undoes a pool's first promotion. The event is a warning if
// `kamino restore` may not restore everything.
func (a eventRecorder) announceReversible(before, p *v1alpha1.Prototype) {
	is := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReversible)
	if a.Recorder != nil && is != nil && meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReversible) == nil {
		kind := corev1.EventTypeWarning
		if is.Status == metav1.ConditionTrue {
			kind = corev1.EventTypeNormal
		}
		a.Recorder.Eventf(p, nil, kind, is.Reason, "Capture", "%s", is.Message)
	}
}

// announceAwaiting records once that a version waits for a person.
func (a eventRecorder) announceAwaiting(before, p *v1alpha1.Prototype) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReady)
	is := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if a.Recorder != nil && is != nil && (is.Reason == AwaitingPromotion || is.Reason == HandedOver) && (was == nil || was.Reason != is.Reason) {
		a.Recorder.Eventf(p, nil, corev1.EventTypeNormal, is.Reason, "Capture", "%s", is.Message)
	}
}

// ofVersion records an event only on the Prototype, because the event does not concern the donor.
func (a eventRecorder) ofVersion(w *pass, kind, reason, format string, args ...any) {
	if a.Recorder != nil {
		a.Recorder.Eventf(w.p, nil, kind, reason, "Capture", format, args...)
	}
}

// begins records the start of an attempt at a trial.
func (a eventRecorder) begins(w *pass) {
	a.ofVersion(w, corev1.EventTypeNormal, "TrialStarted", "trial of version %s: a node is built outside pool %s", w.p.Spec.Version, w.p.Spec.Pool)
}

// passed records that the version passed. A failed trial is recorded as the failure of the capture.
func (a eventRecorder) passed(w *pass) {
	a.ofVersion(w, corev1.EventTypeNormal, TrialPassed, "version %s of pool %s has passed its trial", w.p.Spec.Version, w.p.Spec.Pool)
}

// ends records the end of an attempt without a verdict.
func (a eventRecorder) ends(w *pass) {
	if w.facts.Trial.Verdict == plan.NoVerdict && !w.facts.Failed && !w.facts.Deleting {
		a.ofVersion(w, corev1.EventTypeWarning, string(plan.TrialInconclusive), "attempt %d at the trial of version %s of pool %s has no verdict: %s",
			w.record.Trial.Attempt, w.p.Spec.Version, w.p.Spec.Pool, inconclusiveReason(w))
	}
}

// announceIgnoredReport logs and records an ignored report once for each cause, because all later passes find the report
// again.
func (a eventRecorder) announceIgnoredReport(before, p *v1alpha1.Prototype) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionGeneralized)
	is := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionGeneralized)
	if is == nil || is.Reason != ReportRejected || was != nil && was.Reason == is.Reason && was.Message == is.Message {
		return
	}
	a.Log.Error(errors.New(is.Message), "report is not believed", "prototype", p.Name)
	if a.Recorder != nil {
		a.Recorder.Eventf(p, nil, corev1.EventTypeWarning, ReportRejected, "Capture", "%s", is.Message)
	}
}

// event records an event on the Prototype and on the Node, if the Node exists.
func (a eventRecorder) event(w *pass, kind, reason, format string, args ...any) {
	if a.Recorder == nil {
		return
	}
	if w.isOrphan {
		a.Recorder.Eventf(w.donor.node, nil, kind, reason, "Return", format, args...)
		return
	}
	if w.donor.node != nil {
		a.Recorder.Eventf(w.donor.node, w.p, kind, reason, "Capture", format, args...)
		a.Recorder.Eventf(w.p, w.donor.node, kind, reason, "Capture", format, args...)
		return
	}
	a.Recorder.Eventf(w.p, nil, kind, reason, "Capture", format, args...)
}

// grows records that the pool grows by the donor's replacement.
func (a eventRecorder) grows(w *pass) {
	if w.facts.Leaving.Added {
		a.event(w, corev1.EventTypeNormal, "Growing", "pool %s grows by one node, which is patched and captured", w.p.Spec.Pool)
		return
	}
	a.event(w, corev1.EventTypeNormal, "Growing", "pool %s grows by one node, the replacement of node %s", w.p.Spec.Pool, w.p.Spec.Donor.NodeName)
}

// goes records the removal of the donor's instance.
func (a eventRecorder) goes(w *pass) {
	why := "because its generalized disk cannot join the cluster again"
	if w.facts.Leaving.Added {
		why = "so that the pool has its former size"
	}
	a.event(w, corev1.EventTypeNormal, "Removing", "the instance of node %s is removed from pool %s, %s", w.p.Spec.Donor.NodeName, w.p.Spec.Pool, why)
}
