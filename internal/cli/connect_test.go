package cli

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// Status shows the known facts of a pool that the cloud refuses, and the exit code reports the error.
func TestStatusShowsKnownFacts(t *testing.T) {
	provider := testCloud(true)
	provider.Forbid("Images")
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientset(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{ProviderID: "memory:///pools/pool1/instances/1"},
	})
	c := &cluster.Connection{Kube: kube, Client: clientfake.NewClientBuilder().WithScheme(scheme).Build()}
	report, err := (&session{Factory: &Factory{Now: time.Now}, options: &Options{}, cluster: c, provider: provider.Provider}).report(t.Context(), "pool1")
	if exitCode(err) != ExitNotAllowed {
		t.Errorf("%v, want a denial", err)
	}
	if report == nil || len(report.Pools) != 1 || report.Pools[0].Capacity != 3 || report.Pools[0].Error == "" {
		t.Errorf("%+v", report)
	}
	if report != nil && (len(report.Attention) != 1 || report.Attention[0].Kind != attention.NotAllowed) {
		t.Errorf("%+v", report.Attention)
	}
}
