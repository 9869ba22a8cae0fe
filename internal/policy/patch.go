package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Suspend sets a policy's suspend, and returns the old value. With dryRun, the API server only checks the change.
func Suspend(ctx context.Context, c client.Client, name string, suspend, dryRun bool) (was bool, err error) {
	var p v1alpha1.PrototypePolicy
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &p); err != nil {
		return false, fmt.Errorf("policy %s: %w", name, err)
	}
	was = p.Spec.Suspend
	return was, patchPolicy(ctx, c, name, fmt.Sprintf(`{"spec":{"suspend":%t}}`, suspend), dryRun)
}

// Retry asks the controller to retry at once after a refusal. With dryRun, the API server only checks the change.
func Retry(ctx context.Context, c client.Client, name string, now time.Time, dryRun bool) error {
	return patchPolicy(ctx, c, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.RetryAnnotation, now.UTC().Format(time.RFC3339)), dryRun)
}

func patchPolicy(ctx context.Context, c client.Client, name, patch string, dryRun bool) error {
	var options []client.PatchOption
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	p := &v1alpha1.PrototypePolicy{}
	p.Name = name
	if err := c.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(patch)), options...); err != nil {
		return fmt.Errorf("policy %s: %w", name, err)
	}
	return nil
}

// PoliciesFor returns the policy with this name, or else the policies that report on a pool with this name; empty if none
// matches.
func PoliciesFor(ctx context.Context, c client.Reader, name string) ([]string, error) {
	var list v1alpha1.PrototypePolicyList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list policies: %w", err)
	}
	var names []string
	for i := range list.Items {
		p := &list.Items[i]
		if p.Name == name {
			return []string{name}, nil
		}
		if slices.ContainsFunc(p.Status.Pools, func(pool v1alpha1.PoolStatus) bool { return strings.EqualFold(pool.Name, name) }) {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

// LookAgain asks the policies of a pool to look at the pool at once, after a manual change of the pool. Without policies,
// LookAgain does nothing.
func LookAgain(ctx context.Context, c client.Client, pool string, now time.Time) error {
	names, err := PoliciesFor(ctx, c, pool)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := Retry(ctx, c, name, now, false); err != nil {
			return err
		}
	}
	return nil
}
