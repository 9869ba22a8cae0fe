package capture

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Serving is the reason of condition DonorInService, and of an event: the donor takes pods again, but stays reserved
// until the cloud answers.
const Serving = "Serving"

// actWithoutCloud acts with the cluster alone after a failed pass, because the donor must not wait for an unreachable cloud.
// The error is only of this action. A conflict is no outage.
func (e *Engine) actWithoutCloud(ctx context.Context, w *pass, trouble error) error {
	if apierrors.IsConflict(trouble) {
		return nil
	}
	if err := e.rooms().donors.lookNode(ctx, w); err != nil || !w.isHeld() {
		return nil
	}
	d := plan.WithoutCloud(w.facts)
	e.Log.V(1).Info("decided without the cloud", "node", w.p.Spec.Donor.NodeName, "holder", w.p.Name, "decision", d.String())
	switch d.Do {
	case plan.Fail:
		e.rooms().failures.fail(w, failure(w, d))
	case plan.Serve:
		if err := e.act(ctx, w, d); err != nil {
			return err
		}
		e.rooms().events.event(w, corev1.EventTypeWarning, Serving, "node %s takes pods again, but stays reserved until the cloud answers: %v",
			w.p.Spec.Donor.NodeName, trouble)
		w.p.Status.Progress = fmt.Sprintf("node %s takes pods again, but stays reserved until the cloud answers", w.p.Spec.Donor.NodeName)
		setCondition(w.p, e.now(), v1alpha1.ConditionDonorInService, metav1.ConditionTrue, Serving,
			"the donor takes pods, but stays reserved until the cloud answers")
	case plan.PatchDonor:
		if c := (*cloud.Error)(nil); errors.As(trouble, &c) { // after another error the next pass makes the step
			return e.act(ctx, w, d)
		}
	default:
	}
	return nil
}
