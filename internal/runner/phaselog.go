package runner

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// logChanges logs a line for each new phase of a capture, for a failure, and for the begin of a wait for a user.
func logChanges(log logr.Logger) func(context.Context, *v1alpha1.Prototype, *v1alpha1.Prototype) {
	return func(_ context.Context, before, after *v1alpha1.Prototype) {
		log := log.WithValues("prototype", after.Name, "pool", after.Spec.Pool, "version", after.Spec.Version, "donor", after.Spec.Donor.NodeName)
		if f := after.Status.Failure; f != nil && before.Status.Failure == nil {
			log.Info("capture failed", "reason", f.Reason, "message", f.Message)
		}
		if after.Status.Phase != before.Status.Phase {
			log.Info("capture phase", "phase", after.Status.Phase, "from", before.Status.Phase, "sinceCreation", sinceCreation(after))
		}
		was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionStalled)
		is := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionStalled)
		if after.Status.Failure != nil || is == nil || is.Status != metav1.ConditionTrue || was != nil && was.Status == is.Status && was.Reason == is.Reason {
			return
		}
		log.Info("capture waits", "reason", is.Reason, "message", is.Message)
	}
}

// sinceCreation is the time from the creation of the Prototype to the last change of its steps; empty if unknown.
func sinceCreation(p *v1alpha1.Prototype) string {
	if len(p.Status.Steps) == 0 || p.CreationTimestamp.IsZero() {
		return ""
	}
	last := p.Status.Steps[len(p.Status.Steps)-1]
	at := last.StartedAt
	if last.FinishedAt != nil {
		at = *last.FinishedAt
	}
	return at.Sub(p.CreationTimestamp.Time).Round(time.Second).String()
}
