package capture

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
)

// Serving is the reason of condition DonorInService, and of an event: the donor takes pods again, and is held until the cloud
// answers.
const Serving = "Serving"

// unseen does what the cluster alone allows, behind a pass that did not get through: nobody knows for how long a cloud stays
// away, and a donor that could serve must not wait for that. An error is one of what was done here; what could not be looked at
// has been told by the pass.
func (e *Engine) unseen(ctx context.Context, w *observed, trouble error) error {
	if err := e.lookNode(ctx, w); err != nil || !w.held() {
		return nil
	}
	d := plan.Unseen(w.facts)
	e.Log.V(1).Info("decided without the cloud", "node", w.p.Spec.Donor.NodeName, "holder", w.p.Name, "decision", d.String())
	switch d.Do {
	case plan.Fail:
		endingOf(e).fail(w, failure(w, d))
	case plan.Serve:
		if err := e.act(ctx, w, d); err != nil {
			return err
		}
		announcerOf(e).event(w, corev1.EventTypeWarning, Serving, "node %s takes pods again, and is held until it can be given back: %v", w.p.Spec.Donor.NodeName, trouble)
		w.p.Status.Progress = fmt.Sprintf("node %s takes pods again, and is held until it can be given back", w.p.Spec.Donor.NodeName)
		setCondition(w.p, e.now(), v1alpha1.ConditionDonorInService, metav1.ConditionTrue, Serving, "the donor takes pods, and the capture holds it until it can be given back")
	default:
	}
	return nil
}
