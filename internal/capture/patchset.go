package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/patch/nodepatch"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// patchSetPoll is the pause between two passes over the check of a pioneer.
const patchSetPoll = 5 * time.Second

// patchSetCloud has the calls of a cloud.Provider that find a node with the image of the recipe.
type patchSetCloud interface {
	membership.Registry
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
}

// patchSets refuses a pioneer whose pending patches failed before in the pool, before anything is installed. A node in
// service checks its repositories. A pool without failed patches needs no check.
type patchSets struct {
	kube    kubernetes.Interface
	client  client.Client
	cloud   patchSetCloud
	patcher patcherOf
	store   store
	events  recorder
	now     clock
}

// patcherOf returns the patcher of a Prototype, with the image in its settings.
type patcherOf = func(p *v1alpha1.Prototype) nodepatch.Patcher

// failedSet is a set of patches that failed on a pioneer of the pool. The packages of its donor may be broken.
type failedSet struct {
	prototype, message string
	// policy also knows the set; empty without a policy.
	policy string
}

// refusal of a pioneer whose pending patches are the set.
func (f failedSet) refusal(pool string) cloud.Refusal {
	again := fmt.Sprintf("`kubectl delete prototype %s`", f.prototype)
	if f.policy != "" {
		again += fmt.Sprintf(" and `%s`", v1alpha1.RetryCommand(f.policy))
	}
	return cloud.Refuse(
		v1alpha1.PolicyPatchesQuarantined,
		fmt.Sprintf("the pending patches of pool %s failed on the pioneer of prototype %s, and were not installed again: %s",
			pool, f.prototype, strings.TrimSuffix(f.message, ".")),
		"wait for other patches, or hold the faulty package with pioneer.hold; to try these patches again, first run "+again,
	)
}

// pass makes one pass over the check. begins: nothing is to check, so the capture begins or continues.
func (c patchSets) pass(ctx context.Context, w *pass) (begins bool, err error) {
	p, record := w.p, w.record
	begun := record.Reservation != nil || record.Patch != nil || record.DiskCheckStartedAt != nil || record.LeaveBoot() != ""
	if p.Spec.Pioneer == nil || begun || p.DeletionTimestamp != nil || p.Status.Failure != nil {
		return true, nil
	}
	failed, err := c.failedSets(ctx, p)
	if err != nil || len(failed) == 0 {
		return err == nil, err
	}
	set := p.Status.PatchSet
	if set == "" {
		return c.check(ctx, w)
	}
	bad, is := failed[set]
	if !is {
		return true, nil
	}
	c.refuse(w, bad.refusal(p.Spec.Pool))
	return false, nil
}

// check asks a node for its pending patches, and writes their digest to the Prototype.
func (c patchSets) check(ctx context.Context, w *pass) (begins bool, err error) {
	p := w.p
	node := p.Spec.Donor.NodeName
	patcher := c.patcher(p)
	if err := patcher.MayRun(); err != nil {
		if denied := (*deniedError)(nil); errors.As(err, &denied) {
			c.refuse(w, denied.Refusal)
			return false, nil
		}
		return false, err
	}
	pioneer := p.Spec.Pioneer.Defaulted()
	checked, err := patcher.Check(ctx, nodepatch.CheckTask{
		Holder: holderOf(p), Pool: p.Spec.Pool, Node: node,
		Patches: v1alpha1.OrderPatches{Patches: pioneer.Patches, Hold: pioneer.Hold},
	})
	if err != nil || checked == nil {
		enterPhase(&p.Status, v1alpha1.PhasePreflight, c.now())
		p.Status.Progress = fmt.Sprintf("node %s checks whether its pending patches failed before", node)
		return false, err
	}
	found := nodepatch.Summary(checked.Report, metav1.NewTime(c.now()))
	if found.Reason != "" {
		c.refuse(w, cloud.Refuse(
			v1alpha1.PolicyPatchesNotChecked,
			fmt.Sprintf("patches failed before in pool %s, and node %s could not check its pending patches (%s): %s",
				p.Spec.Pool, checked.Node, found.Reason, strings.TrimSuffix(found.Message, ".")),
			"correct the cause, and try again",
		))
		return false, nil
	}
	return false, c.store.commit(ctx, w, func(s *v1alpha1.PrototypeStatus) { s.PatchSet = found.Set })
}

// preview returns the refusal of a capture whose pending patches are known to have failed. If a check will find the pending
// patches, preview describes the check.
func (c patchSets) preview(ctx context.Context, p *v1alpha1.Prototype) (refusals []cloud.Refusal, check string, err error) {
	if p.Spec.Pioneer == nil {
		return nil, "", nil
	}
	failed, err := c.failedSets(ctx, p)
	if err != nil || len(failed) == 0 {
		return nil, "", client.IgnoreNotFound(err) // a cluster without the definitions has no failed patches
	}
	set := p.Status.PatchSet
	if set == "" {
		if set, err = c.lastSet(ctx, p); err != nil {
			return nil, "", err
		}
	}
	if bad, is := failed[set]; is {
		return []cloud.Refusal{bad.refusal(p.Spec.Pool)}, "", nil
	}
	node := p.Spec.Donor.NodeName
	var before []string
	for _, f := range failed {
		before = append(before, fmt.Sprintf("%s (%s)", f.prototype, strings.TrimSuffix(f.message, ".")))
	}
	slices.Sort(before)
	return nil, fmt.Sprintf(
		"first check which patches are pending on node %s. The capture is refused (%s) if the patches failed before, on the pioneer of prototype %s",
		node, v1alpha1.PolicyPatchesQuarantined, strings.Join(before, ", or of ")), nil
}

// lastSet is the set of pending patches that a policy with the same choice of patches last found in the pool; empty if unknown.
func (c patchSets) lastSet(ctx context.Context, p *v1alpha1.Prototype) (string, error) {
	policies := &v1alpha1.PrototypePolicyList{}
	if err := c.client.List(ctx, policies); err != nil {
		return "", fmt.Errorf("list prototypepolicies: %w", err)
	}
	own := p.Spec.Pioneer.Defaulted()
	for i := range policies.Items {
		policy := &policies.Items[i]
		if policy.Spec.Pioneer == nil {
			continue
		}
		other := policy.Spec.Pioneer.Defaulted()
		for _, pool := range policy.Status.Pools {
			if pool.Name == p.Spec.Pool && pool.Patches != nil && pool.Patches.Set != "" && other.Patches == own.Patches && slices.Equal(other.Hold, own.Hold) {
				return pool.Patches.Set, nil
			}
		}
	}
	return "", nil
}

// refuse ends the capture, which has not begun.
func (c patchSets) refuse(w *pass, why cloud.Refusal) {
	w.preflight.refusals, w.facts.Refused = []cloud.Refusal{why}, true
	d := plan.Decision{Do: plan.Refuse}
	report(w, d, c.now())
	c.events.announce(w, d)
}

// failedSets are the sets of patches that failed in other captures of the pool.
func (c patchSets) failedSets(ctx context.Context, p *v1alpha1.Prototype) (map[string]failedSet, error) {
	failed := map[string]failedSet{}
	err := eachOfPool(ctx, c.client, p, func(other *v1alpha1.Prototype) {
		if set, message := nodepatch.FailedSet(other, false); set != "" && message != "" {
			failed[set] = failedSet{prototype: other.Name, message: message}
		}
	}, func(policy string, f v1alpha1.FailedPatches) {
		failed[f.Set] = failedSet{prototype: f.Prototype, message: f.Message, policy: policy}
	})
	return failed, err
}

// eachOfPool visits the other Prototypes of the pool, and the failed patches in the status of policies, which outlive deleted
// Prototypes.
func eachOfPool(ctx context.Context, c client.Client, p *v1alpha1.Prototype, prototype func(*v1alpha1.Prototype),
	failed func(string, v1alpha1.FailedPatches)) error {
	list := &v1alpha1.PrototypeList{}
	if err := c.List(ctx, list); err != nil {
		return fmt.Errorf("list prototypes: %w", err)
	}
	for i := range list.Items {
		if other := &list.Items[i]; other.Name != p.Name && other.Spec.Pool == p.Spec.Pool {
			prototype(other)
		}
	}
	policies := &v1alpha1.PrototypePolicyList{}
	if err := c.List(ctx, policies); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("list prototypepolicies: %w", err)
	}
	for i := range policies.Items {
		for _, pool := range policies.Items[i].Status.Pools {
			if pool.Patches == nil || pool.Name != p.Spec.Pool {
				continue
			}
			for _, f := range pool.Patches.Failed {
				if f.Prototype != p.Name {
					failed(policies.Items[i].Name, f)
				}
			}
		}
	}
	return nil
}
