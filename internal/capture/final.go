package capture

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// failures turns final refusals of a cloud into the failure of the capture.
type failures struct {
	events recorder
	now    clock
}

// failFinally ends the capture after an error of the cloud if a wait would keep the donor out of service. The capture also
// ends if the user's rules are gone. All other errors are retried.
func (e failures) failFinally(w *pass, d plan.Decision, err error) error {
	if f := settingsFailure(w, err); f != nil {
		e.fail(w, f)
		return nil
	}
	var c *cloud.Error
	if errors.As(err, &c) && c.Kind == cloud.Refused && d.Do == plan.Promote {
		// The pool's upgrade policy may be intended, and a waiting capture would block later captures of the pool. The version stays.
		e.fail(w, &v1alpha1.Failure{Reason: c.Code, Message: fmt.Sprintf(
			"version %s of pool %s is complete, but not promoted, because the promotion would change running nodes: %s. The version is kept; promote the version later with `kamino promote %s %s`",
			w.p.Spec.Version, w.p.Spec.Pool, c.Message, w.p.Spec.Pool, w.p.Spec.Version)})
		return nil
	}
	copies := slices.Contains(copyActions, d.Do)
	waiting := copies || d.Do == plan.Protect || d.Do == plan.TakeSnapshot || d.Do == plan.Stop && !w.ends()
	if !errors.As(err, &c) || !waiting && d.Do != plan.Publish {
		return err
	}
	if !endsCapture(c.Kind, d.Do == plan.Publish, copies) {
		return err
	}
	e.fail(w, &v1alpha1.Failure{Reason: CloudRefused, Message: c.Error(), CloudError: c.Message})
	return nil
}

// copyActions are requests to the cloud that a capture by copy does not wait for: the donor serves, and a later capture can begin.
var copyActions = []plan.Action{plan.BeginWorkshop, plan.CopyRunning, plan.AttachVolume}

// endsCapture reports whether an error of this kind ends the capture. A missing permission is awaited only after the
// donor's return. A refused copy of a donor in service ends the capture.
func endsCapture(kind cloud.Kind, back, ahead bool) bool {
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

// fail records the failure. The release of the donor follows.
func (e failures) fail(w *pass, f *v1alpha1.Failure) {
	w.p.Status.Failure = f
	enterPhase(&w.p.Status, v1alpha1.PhaseCleaningUp, e.now())
	reportConditions(w, plan.Decision{Do: plan.Fail}, e.now())
	e.events.event(w, corev1.EventTypeWarning, f.Reason, "%s", f.Message)
}

// CloudRefused is the reason of a failure: the cloud refuses the next step while the donor waits.
const CloudRefused = "CloudRefused"

// settingsFailure is the failure if the error says that a setting of the capture is missing or not allowed; nil otherwise.
func settingsFailure(w *pass, err error) *v1alpha1.Failure {
	if errors.Is(err, errRulesGone) {
		return &v1alpha1.Failure{
			Reason: admission.RulesInvalid,
			Message: fmt.Sprintf("ConfigMap %s of settings.generalize.rules was deleted during the capture of node %s. Create the ConfigMap, then %s",
				w.p.Spec.Settings.Generalize.Rules, w.p.Spec.Donor.NodeName, retryRemedy(w)),
		}
	}
	if denied := (*deniedError)(nil); errors.As(err, &denied) {
		return &v1alpha1.Failure{Reason: denied.Reason, Message: denied.Message}
	}
	return nil
}
