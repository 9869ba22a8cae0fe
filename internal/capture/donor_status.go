package capture

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
)

// donorState is the observed state of the donor.
func donorState(w *pass) v1alpha1.DonorState {
	f := &w.facts
	switch {
	case f.Copy.Wanted && f.Donor.Power == plan.PowerUnread && f.Donor.Node == plan.NodeReady: // the instance no longer matters
		return v1alpha1.DonorReady
	case f.Donor.Power == plan.InstanceGone:
		return v1alpha1.DonorGone
	case f.Donor.Power != plan.On:
		return v1alpha1.DonorOff
	case f.Donor.Node == plan.NodeGone:
		return v1alpha1.DonorNodeGone
	case f.Donor.Node == plan.NodeReady && (f.Donor.Rebooted || !f.Hold.Returning):
		return v1alpha1.DonorReady
	}
	return v1alpha1.DonorNotReady
}

// reportDonor writes the state of the donor and the time of the reservation and of the release.
func reportDonor(w *pass, now time.Time) {
	s := &w.p.Status
	defer reportFrozen(w)
	switch {
	case w.isHeld() && w.donor.reservation != nil && s.Donor == nil:
		since, taken := w.outOfServiceSince()
		if !taken {
			return // the donor still serves
		}
		at := metav1.NewMicroTime(since)
		for _, step := range s.Steps {
			if step.Phase == v1alpha1.PhaseReserving && step.StartedAt.Truncate(time.Second).Equal(at.Time) {
				at = step.StartedAt // a reservation has the resolution of one second
				break
			}
		}
		s.Donor = &v1alpha1.DonorStatus{ReservedAt: &at, State: donorState(w)}
	case w.isHeld() && s.Donor != nil:
		s.Donor.State, s.Donor.ReleasedAt = donorState(w), nil
	case !w.isHeld() && s.Donor != nil && s.Donor.ReleasedAt == nil:
		at := metav1.NewMicroTime(now)
		s.Donor.ReleasedAt = &at
		if w.facts.Donor.Node == plan.NodeReady && s.Donor.State == v1alpha1.DonorNotReady {
			s.Donor.State = v1alpha1.DonorReady
		}
	}
}

// reportFrozen writes how long the disk of a copied donor stood still.
func reportFrozen(w *pass) {
	if disk, donor := w.copyRecord().Disk, w.p.Status.Donor; donor != nil && disk != nil && w.copyRecord().Accepted {
		donor.FrozenFor = &disk.FrozenFor
	}
}

// donorWords are the messages of donor states.
var donorWords = map[v1alpha1.DonorState]string{
	v1alpha1.DonorNotReady: "the node was not Ready when last read",
	v1alpha1.DonorOff:      "its instance was off when last read",
	v1alpha1.DonorNodeGone: "its Node was gone when last read",
	v1alpha1.DonorGone:     "its instance was gone when last read",
}

// instanceGone is the reason of condition DonorInService, and of an event: the instance of the held donor does not exist.
const instanceGone = "InstanceGone"

// isPatchFailed reports whether the patch of a pioneer failed, after which the node may be cordoned until its release.
func isPatchFailed(p *v1alpha1.Prototype) bool {
	return p.Status.Patch != nil && p.Status.Patch.Failure != ""
}

// reportInService sets condition DonorInService.
func reportInService(p *v1alpha1.Prototype, now time.Time) {
	donor := p.Status.Donor
	set := func(status metav1.ConditionStatus, reason, message string) {
		setCondition(p, now, v1alpha1.ConditionDonorInService, status, reason, message)
	}
	switch {
	case p.Status.Phase == v1alpha1.PhasePatching, p.Status.Phase == v1alpha1.PhaseRebooting:
		set(metav1.ConditionFalse, string(p.Status.Phase), "the capture patches the donor")
	case p.Status.Phase == v1alpha1.PhaseSoaking:
		set(metav1.ConditionTrue, string(p.Status.Phase), "the patched donor takes pods, but stays reserved")
	case donor == nil:
		set(metav1.ConditionTrue, "NotHeld", "the capture does not hold the donor")
	case donor.ReleasedAt == nil && donor.State == v1alpha1.DonorNodeGone:
		set(metav1.ConditionFalse, string(donor.State),
			fmt.Sprintf("node %s was deleted during the capture; its instance runs, and registers the Node again at its next boot", p.Spec.Donor.NodeName))
	case donor.ReleasedAt == nil && donor.State == v1alpha1.DonorGone:
		set(metav1.ConditionFalse, instanceGone, fmt.Sprintf("the instance of node %s was removed during the capture", p.Spec.Donor.NodeName))
	case donor.ReleasedAt == nil && p.Spec.Settings.CopiesDonor() && !isPatchFailed(p) && donorWords[donor.State] == "":
		set(metav1.ConditionTrue, "Copied", "the donor serves while its disk is copied")
	case donor.ReleasedAt == nil:
		set(metav1.ConditionFalse, "Reserved", "the capture holds the donor")
	case donorWords[donor.State] != "":
		set(metav1.ConditionFalse, string(donor.State), "the capture no longer holds the donor; "+donorWords[donor.State])
	default:
		set(metav1.ConditionTrue, "NotHeld", "the capture does not hold the donor")
	}
}
