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

// LookAgain asks the policies of a pool to look at the pool at once, after a manual change of the pool. Without policies,
// LookAgain does nothing.
func LookAgain(ctx context.Context, c client.Client, pool string, now time.Time) error {
	var list v1alpha1.PrototypePolicyList
	if err := c.List(ctx, &list); err != nil {
		return fmt.Errorf("list policies: %w", err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.RetryAnnotation, now.UTC().Format(time.RFC3339))
	for i := range list.Items {
		p := &list.Items[i]
		if !slices.ContainsFunc(p.Status.Pools, func(s v1alpha1.PoolStatus) bool { return strings.EqualFold(s.Name, pool) }) {
			continue
		}
		if err := c.Patch(ctx, p, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("policy %s: %w", p.Name, err)
		}
	}
	return nil
}
