package capture

import (
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
)

// announce records an event for the few actions that users wait for or must know of.
func (a recorder) announce(w *pass, d plan.Decision) {
	node, version, pool := w.p.Spec.Donor.NodeName, w.p.Spec.Version, w.p.Spec.Pool
	switch d.Do {
	case plan.Reserve:
		if w.p.Spec.StaysInService() {
			a.event(w, corev1.EventTypeNormal, "Reserved", "node %s is reserved for version %s of pool %s, and stays in service; a workshop follows", node, version, pool)
			return
		}
		a.event(w, corev1.EventTypeNormal, "Reserved", "node %s is reserved for version %s of pool %s; the drain follows", node, version, pool)
		if w.preflight.kured.Unknown != "" {
			a.event(w, corev1.EventTypeWarning, KuredLockUnknown, "kured's lock is unreadable, and kured may reboot another node meanwhile: %s",
				w.preflight.kured.Unknown)
		}
	case plan.EndWorkshop:
		if loss := workshopLoss(w); loss != "" && replacesWorkshop(w) {
			a.event(w, corev1.EventTypeWarning, WorkshopLost,
				"a workshop of pool %s was lost: %s. Kamino deletes it with the copy, and makes a fresh one", pool, loss)
		}
	case plan.AttachVolume:
		if w.facts.Copy.Volume == plan.NoVolume {
			a.event(w, corev1.EventTypeNormal, "Copied", "the disk of node %s was copied while the node served%s; the copy is cleaned on the workshop", node, frozen(w))
		}
	case plan.TakeSnapshot:
		if w.facts.Copy.Wanted {
			a.event(w, corev1.EventTypeNormal, "Generalized", "the copy of node %s is generalized, and attached to no machine; it is copied next", node)
			return
		}
		a.event(w, corev1.EventTypeNormal, "Generalized", "node %s is generalized and powered off; its disk is copied next", node)
	case plan.Promote:
		a.event(w, corev1.EventTypeNormal, "Promoting", "the recipe of pool %s gets version %s%s", pool, version, compared(w.p.Status.Recipe))
	case plan.Succeed:
		a.event(w, corev1.EventTypeNormal, "Promoted", "new nodes of pool %s use the image of node %s%s", pool, node, compared(w.p.Status.Recipe))
	case plan.Refuse:
		a.event(w, corev1.EventTypeWarning, "Refused", "%s", w.p.Status.Failure.Message)
	case plan.Fail:
		a.event(w, corev1.EventTypeWarning, string(d.Why.Public()), "%s", w.p.Status.Failure.Message)
	default:
	}
}

// frozen says how long the donor's disk stood still, as the end of a clause.
func frozen(w *pass) string {
	disk := w.copyRecord().Disk
	if disk == nil || !disk.Frozen {
		return ""
	}
	return fmt.Sprintf(", frozen for %.2f s", disk.FrozenFor.Seconds())
}

// KuredLockUnknown is the reason of an event: Kamino reserved a donor without knowledge of kured's lock. An unreadable
// lock does not block captures, because the cluster may have no kured.
const KuredLockUnknown = "KuredLockUnknown"

// WorkshopLost is the reason of an event: the machine that cleans the copy is gone, off, silent or has rebooted, and a fresh one follows.
const WorkshopLost = "WorkshopLost"

// conditionEvents are the conditions whose begin users must know of, each with the changes that are news.
var conditionEvents = []struct {
	condition string
	isNews    func(p *v1alpha1.Prototype, was, is metav1.Condition) bool
}{
	// The capture waits for a person. The end of a capture has its own event.
	{v1alpha1.ConditionStalled, func(p *v1alpha1.Prototype, was, is metav1.Condition) bool {
		return is.Status == metav1.ConditionTrue && was.Reason != is.Reason && (p.Status.Failure == nil || p.Status.Failure.Reason != is.Reason)
	}},
	// All later passes find an ignored report again, so each cause is news once.
	{v1alpha1.ConditionGeneralized, func(_ *v1alpha1.Prototype, was, is metav1.Condition) bool {
		return is.Reason == ReportRejected && (was.Reason != is.Reason || was.Message != is.Message)
	}},
	// No rollback undoes a pool's first promotion.
	{v1alpha1.ConditionReversible, func(_ *v1alpha1.Prototype, was, _ metav1.Condition) bool { return was.Type == "" }},
	// A held donor has lost its Node or its instance.
	{v1alpha1.ConditionDonorInService, func(p *v1alpha1.Prototype, was, is metav1.Condition) bool {
		return (is.Reason == string(v1alpha1.DonorNodeGone) || is.Reason == instanceGone) && was.Reason != is.Reason && p.Status.Donor.ReleasedAt == nil
	}},
	// A version waits for a person.
	{v1alpha1.ConditionReady, func(_ *v1alpha1.Prototype, was, is metav1.Condition) bool {
		return (is.Reason == AwaitingPromotion || is.Reason == HandedOver) && was.Reason != is.Reason
	}},
}

// announceChanges records an event for each condition that is news.
func (a recorder) announceChanges(before, p *v1alpha1.Prototype) {
	for _, e := range conditionEvents {
		is := meta.FindStatusCondition(p.Status.Conditions, e.condition)
		was := metav1.Condition{}
		if c := meta.FindStatusCondition(before.Status.Conditions, e.condition); c != nil {
			was = *c
		}
		if is == nil || !e.isNews(p, was, *is) {
			continue
		}
		if is.Reason == ReportRejected {
			a.log.Error(errors.New(is.Message), "report is not believed", "prototype", p.Name)
		}
		kind := corev1.EventTypeNormal
		if is.Status == metav1.ConditionFalse || e.condition == v1alpha1.ConditionStalled {
			kind = corev1.EventTypeWarning
		}
		if a.events != nil {
			a.events.Eventf(p, nil, kind, is.Reason, "Capture", "%s", is.Message)
		}
	}
}

// ends records the end of an attempt without a verdict.
func (a recorder) ends(w *pass) {
	if w.facts.Trial.Verdict == plan.NoVerdict && !w.facts.Failed && !w.facts.Deleting {
		a.ofVersion(w, corev1.EventTypeWarning, string(plan.TrialInconclusive), "attempt %d at the trial of version %s of pool %s has no verdict: %s",
			w.record.Trial.Attempt, w.p.Spec.Version, w.p.Spec.Pool, inconclusiveReason(w))
	}
}

// recorder records events and logs for users.
type recorder struct {
	events events.EventRecorder // nil: no events
	log    logr.Logger
}

// event records an event on the Prototype and on the Node, if the Node exists.
func (a recorder) event(w *pass, kind, reason, format string, args ...any) {
	if a.events == nil {
		return
	}
	if w.isOrphan {
		a.events.Eventf(w.donor.node, nil, kind, reason, "Return", format, args...)
		return
	}
	if w.donor.node != nil {
		a.events.Eventf(w.donor.node, w.p, kind, reason, "Capture", format, args...)
		a.events.Eventf(w.p, w.donor.node, kind, reason, "Capture", format, args...)
		return
	}
	a.events.Eventf(w.p, nil, kind, reason, "Capture", format, args...)
}

// ofVersion records an event only on the Prototype, because the event does not concern the donor.
func (a recorder) ofVersion(w *pass, kind, reason, format string, args ...any) {
	if a.events != nil {
		a.events.Eventf(w.p, nil, kind, reason, "Capture", format, args...)
	}
}

// released records the release of the donor with its observed state.
func (a recorder) released(w *pass) {
	name := w.p.Spec.Donor.NodeName
	switch state := donorState(w); state {
	case v1alpha1.DonorReady:
		a.event(w, corev1.EventTypeNormal, "Released", "node %s is in the same state as before the capture", name)
	default:
		a.event(w, corev1.EventTypeWarning, "Released", "node %s is no longer reserved; %s", name, donorWords[state])
	}
}
