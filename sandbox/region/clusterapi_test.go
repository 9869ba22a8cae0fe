package region

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kubefake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kamino-dev/kamino/sandbox/pool"
)

// TestMakePoolAwaitsTheGroup: Cluster API's provider makes the group of a machine pool after the objects. Until then the pool
// has no group, and no Machines; a size of zero equals the number of the Machines.
func TestMakePoolAwaitsTheGroup(t *testing.T) {
	const nodes = 2
	groups := ""
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups>%s</AutoScalingGroups></DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>`, groups)
	}))
	t.Cleanup(web.Close)
	a := &AWS{groups: autoscaling.NewFromConfig(sdk.Config{Region: "eu-central-1", BaseEndpoint: sdk.String(web.URL),
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})}
	polls := 0
	objects := interceptor.NewClient(kubefake.NewClientBuilder().Build(),
		interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if polls++; polls == 3 {
				groups = fmt.Sprintf("<member><DesiredCapacity>%d</DesiredCapacity></member>", nodes)
				for n := range nodes {
					m := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"providerID": fmt.Sprintf("aws:///eu-central-1a/i-%d", n)}}}
					m.SetGroupVersionKind(core.WithKind("Machine"))
					m.SetNamespace("clusters")
					m.SetName(fmt.Sprintf("m-%d", n))
					m.SetLabels(map[string]string{machinePools.label: "workers"})
					if err := c.Create(ctx, m); err != nil {
						return err
					}
				}
			}
			return c.List(ctx, list, o...)
		}})
	c, err := NewClusterAPI(a, objects, types.NamespacedName{Namespace: "clusters", Name: "home"}, "v1.34.0")
	if err != nil {
		t.Fatal(err)
	}
	spec := pool.Spec{Name: "workers", Nodes: nodes, Kind: pool.MachinePool}
	if err := c.MakePool(t.Context(), spec, ""); err != nil {
		t.Fatal(err)
	}
	if p, _, err := c.Pool(t.Context(), spec); err != nil || p.Capacity != nodes {
		t.Errorf("the pool is ready after %d polls with a size of %d, want %d (%v)", polls, p.Capacity, nodes, err)
	}
}
