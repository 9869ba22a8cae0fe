package cli

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestNewNodesAreAwaited: new Ready nodes of the pool count; without them the command ends with its exit code.
func TestNewNodesAreAwaited(t *testing.T) { synctest.Test(t, newNodesAreAwaited) }

func newNodesAreAwaited(t *testing.T) {
	grown := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	provider := memory.New(memory.Config{Now: func() time.Time { return grown }})
	pool := provider.AddPool(memory.PoolSpec{Name: "pool1", MaxSize: 9})
	p := &v1alpha1.Prototype{}
	p.Spec.Pool, p.Spec.Version, p.Spec.Settings.Recipe.NewNodes = "pool1", "2026.03.14", 1
	var objects []*corev1.Node
	for _, c := range []struct {
		id   string
		at   time.Time
		then corev1.ConditionStatus
	}{{"old", grown.Add(-time.Hour), corev1.ConditionTrue}, {"new", grown.Add(time.Minute), corev1.ConditionFalse}} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.id, CreationTimestamp: metav1.NewTime(c.at)}}
		n.Spec.ProviderID = string(provider.AddInstance(pool, c.id))
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: c.then}}
		objects = append(objects, n)
	}
	p.Spec.Donor.ProviderID = objects[0].Spec.ProviderID
	kube := fake.NewClientset(objects[0], objects[1])
	var out bytes.Buffer
	now := grown
	s := &session{Factory: &Factory{Out: io.Discard, Err: &out, Now: func() time.Time { now = now.Add(time.Minute); return now }},
		cluster: &cluster.Connection{Kube: kube}, provider: cloud.Provider(provider)}

	if err := s.awaitNewNodes(t.Context(), p, 10*time.Minute); err != nil || out.Len() > 0 {
		t.Errorf("a pool that did not grow: %v, %s", err, &out)
	}
	p.Status.Steps = []v1alpha1.Step{{Phase: v1alpha1.PhaseScalingOut, StartedAt: metav1.NewMicroTime(grown.Add(300 * time.Millisecond))}}
	err := s.awaitNewNodes(t.Context(), p, 10*time.Minute)
	var end *failure
	if !errors.As(err, &end) || end.Code != ExitFailed || !strings.Contains(err.Error(), "0 of 1 new node is Ready within 10m") {
		t.Errorf("it did not come: %v", err)
	}
	objects[1].Status.Conditions[0].Status = corev1.ConditionTrue
	if err := kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), objects[1], ""); err != nil {
		t.Fatal(err)
	}
	now = grown.Add(4 * time.Minute)
	if err := s.awaitNewNodes(t.Context(), p, time.Hour); err != nil {
		t.Fatal(err)
	}
	if message := out.String(); !strings.HasSuffix(message, "1 new node is Ready 5m00s after the pool began to grow: new (not version 2026.03.14).\n") {
		t.Errorf("it says %q", message)
	}
}
