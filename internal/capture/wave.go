package capture

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// lookWave returns why the version of a policy's capture is held back for versions of other pools; empty if it is not. A pool whose policy
// rolls nothing back neither waits, nor is waited for.
func (m promotion) lookWave(ctx context.Context, w *pass) (string, error) {
	if !m.waves || w.p.Labels[v1alpha1.PolicyLabel] == "" {
		return "", nil
	}
	policies := &v1alpha1.PrototypePolicyList{}
	if err := m.client.List(ctx, policies); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	prototypes := &v1alpha1.PrototypeList{}
	if err := m.client.List(ctx, prototypes); err != nil {
		return "", fmt.Errorf("list prototypes: %w", err)
	}
	return joinhealth.HeldBack(m.trials.now(), w.p.CreationTimestamp.Time, promotions(w.p, prototypes.Items, policies.Items)), nil
}

// promotions returns the newest promotion of each other pool whose joins a policy tracks; none if the own policy rolls nothing back.
func promotions(own *v1alpha1.Prototype, prototypes []v1alpha1.Prototype, policies []v1alpha1.PrototypePolicy) []joinhealth.Promotion {
	rollsBack := map[string]bool{}
	joins := map[string]*v1alpha1.JoinHealthStatus{}
	for i := range policies {
		p := &policies[i]
		rollsBack[v1alpha1.LabelValue(p.Name)] = p.Spec.Rollback.Mode != v1alpha1.RollbackOff
		for k := range p.Status.Pools {
			joins[strings.ToLower(p.Status.Pools[k].ID)] = p.Status.Pools[k].JoinHealth
		}
	}
	if !rollsBack[own.Labels[v1alpha1.PolicyLabel]] {
		return nil
	}
	newest := map[string]joinhealth.Promotion{}
	for i := range prototypes {
		p := &prototypes[i]
		at, id := promotedAt(p), strings.ToLower(p.Spec.PoolID)
		if at.IsZero() || strings.EqualFold(id, own.Spec.PoolID) || !rollsBack[p.Labels[v1alpha1.PolicyLabel]] || at.Before(newest[id].At) {
			continue
		}
		found := joinhealth.Promotion{Pool: p.Spec.Pool, Version: p.Spec.Version, At: at}
		if j := joins[id]; j != nil && j.Version == found.Version {
			found.Joined, found.Suspect = int(j.Joined), j.State == string(joinhealth.Failing) || j.State == string(joinhealth.RollingBack)
		} else if j != nil {
			found.Suspect = j.Suspect == found.Version
		}
		newest[id] = found
	}
	all := make([]joinhealth.Promotion, 0, len(newest))
	for _, p := range newest {
		all = append(all, p)
	}
	return all
}

// promotedAt is when the capture let the recipe name its version; zero if it has not.
func promotedAt(p *v1alpha1.Prototype) time.Time {
	for _, step := range p.Status.Steps {
		if step.Phase == v1alpha1.PhasePromoting {
			return step.StartedAt.Time
		}
	}
	if ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); ready != nil && p.Status.Phase == v1alpha1.PhaseSucceeded {
		return ready.LastTransitionTime.Time // a person promoted the version
	}
	return time.Time{}
}
