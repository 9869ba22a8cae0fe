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

// Suspend sets or unsets a policy's suspend, and tells what it was before. A dry run has the API server check it alone.
func Suspend(ctx context.Context, c client.Client, name string, suspend, dryRun bool) (was bool, err error) {
	var p v1alpha1.PrototypePolicy
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &p); err != nil {
		return false, fmt.Errorf("policy %s: %w", name, err)
	}
	was = p.Spec.Suspend
	return was, wish(ctx, c, name, fmt.Sprintf(`{"spec":{"suspend":%t}}`, suspend), dryRun)
}

// Retry asks that what a policy was refused is tried at once. A dry run has the API server check it alone.
func Retry(ctx context.Context, c client.Client, name string, now time.Time, dryRun bool) error {
	return wish(ctx, c, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.RetryAnnotation, now.UTC().Format(time.RFC3339)), dryRun)
}

func wish(ctx context.Context, c client.Client, name, patch string, dryRun bool) error {
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

// Meant names the policy of a name, or those that report on a pool which is meant by it; none if there is none.
func Meant(ctx context.Context, c client.Reader, name string) ([]string, error) {
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

// LookAgain asks the policies that report on a pool of that name to look at it at once, because something about it was changed by
// hand. Without policies nobody need look.
func LookAgain(ctx context.Context, c client.Client, pool string, now time.Time) error {
	names, err := Meant(ctx, c, pool)
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
