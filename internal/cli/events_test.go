package cli

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestACommandRecordsEvents runs a Prototype with the command's engine on a real API server. The capture is refused, which
// causes an event.
func TestACommandRecordsEvents(t *testing.T) {
	c := startCluster(t)
	world := memory.New(memory.Config{})
	instance := world.AddInstance(world.AddPool(memory.PoolSpec{Name: "pool1"}), "0")
	p := writePrototype(t, c, imageversion.Of(time.Now()), instance)
	writeNode(t, c, p.Spec.Donor.NodeName, instance)

	f := NewFactory()
	f.In, f.Out, f.Err = strings.NewReader("settings: {generalize: {image: kamino:test}}"), t.Output(), t.Output()
	f.Connect = func(*Options) (*cluster.Connection, error) { return c, nil }
	f.Cloud = func(context.Context, *Options) (cloud.Provider, error) { return world.Provider, nil }
	if _, err := c.Kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultNamespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if code := f.Run(t.Context(), []string{"capture", p.Spec.Donor.NodeName, "-f", "-"}); code != ExitRefused {
		t.Errorf("exit code %d, want %d", code, ExitRefused)
	}
	want := []string{"Node Warning Refused by kamino", "Prototype Warning Refused by kamino"}
	if diff := cmp.Diff(want, recordedEvents(t, c.Kube)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// recordedEvents are the events in the namespace for events of cluster-wide objects.
func recordedEvents(t *testing.T, kube kubernetes.Interface) []string {
	t.Helper()
	list, err := kube.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if e.ReportingController == "kamino" {
			out = append(out, e.Regarding.Kind+" "+e.Type+" "+e.Reason+" by "+e.ReportingController)
		}
	}
	slices.Sort(out)
	return out
}
