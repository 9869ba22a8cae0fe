package region

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/sandbox/aws"
)

// The real infrastructure provider for AWS, CAPA v2.13, reconciles machines and machine pools. The sandbox has no load
// balancers and no routes, so the AWSCluster is externally managed.

// managedElsewhere is the annotation of an infrastructure cluster that the provider does not reconcile.
var managedElsewhere = map[string]string{"cluster.x-k8s.io/managed-by": "sandbox"}

// WithProvider returns the same cloud for the real provider.
func (c *ClusterAPI) WithProvider() *ClusterAPI {
	with := *c
	with.withProvider = true
	return &with
}

// provideNetwork reports the network of the externally managed cluster as ready. The provider adds the security groups to the
// launch templates of machine pools.
func (c *ClusterAPI) provideNetwork(ctx context.Context) error {
	groups := map[string]any{}
	for _, role := range []string{"node", "lb"} {
		groups[role] = map[string]any{"id": "sg-" + role, "name": role}
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{"ready": true, "networkStatus": map[string]any{"securityGroups": groups}}})
	if err != nil {
		return err
	}
	return c.objects.Status().Patch(ctx, c.object(c.capiGroup(), c.capiKind()+"Cluster", c.cluster.Name), client.RawPatch(types.MergePatchType, status))
}

// ofPool tags the instances of a machine spec with their pool.
func ofPool(machines map[string]any, pool string) {
	machines["additionalTags"] = map[string]any{aws.PoolTag: pool}
}

// inOneSubnet places a machine pool in the first subnet of the cluster, as the imitated provider does.
func inOneSubnet(machinePool, cluster map[string]any) {
	subnets, _, _ := unstructured.NestedSlice(cluster, "network", "subnets")
	first, _ := subnets[0].(map[string]any)
	machinePool["subnets"] = []any{map[string]any{"id": first["id"]}}
}
