package cli

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// The census of a large cluster goes by pages.
func TestCensusPages(t *testing.T) {
	kube := fake.NewClientset()
	pages := 0
	kube.PrependReactor("list", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		options := action.(clienttesting.ListActionImpl).ListOptions
		if options.Limit < 100 || options.Limit > 500 {
			t.Errorf("pages of %d", options.Limit)
		}
		list := &corev1.NodeList{}
		for i := range 10 {
			node := corev1.Node{}
			node.Spec.ProviderID = fmt.Sprintf("memory:///pools/p%d/instances/%d", i%2, i)
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			list.Items = append(list.Items, node)
		}
		if pages++; pages < 3 {
			list.Continue = "more"
		}
		return true, list, nil
	})
	s := &session{cluster: &cluster.Connection{Kube: kube}, provider: testCloud()}
	pools, err := s.census(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(pools) != 2 || pools[0].Nodes != 15 || pools[1].ReadyNodes != 15 {
		t.Errorf("pools = %+v", pools)
	}
}

// A pool that the cloud won't show is shown as far as it is known, and the exit code tells.
func TestStatusShowsWhatCanBeFound(t *testing.T) {
	provider := testCloud()
	provider.Forbid("Images")
	s := &session{Factory: &Factory{Now: func() time.Time { return testNow }}, provider: provider}
	pools := []print.Pool{{Pool: cloud.Pool{ID: "memory:///pools/pool1", Name: "pool1"}}}
	err := s.askCloud(t.Context(), pools)
	if exitCode(err) != ExitNotAllowed {
		t.Errorf("askCloud: %v, want a denial", err)
	}
	if pools[0].Capacity != 3 || pools[0].Error == "" {
		t.Errorf("pool = %+v", pools[0])
	}
}
