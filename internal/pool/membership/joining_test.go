package membership_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// TestTheClusterIsAskedOnceForManyPools: the result is cached for a while, and an error is not cached.
func TestTheClusterIsAskedOnceForManyPools(t *testing.T) {
	kube := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"}})
	var trouble error
	kube.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return trouble != nil, nil, trouble })
	now := time.Now()
	j := &membership.Joiner{Kube: kube, Now: func() time.Time { return now }}
	ask := func(want v1alpha1.Profile, requests int) {
		t.Helper()
		kube.ClearActions()
		for range 100 {
			answer, err := j.Joins(t.Context(), bootstrapkind.Facts{Node: node("n", "pool1")})
			if err != nil || answer.Profile != want {
				t.Fatalf("%+v, %v", answer, err)
			}
		}
		if n := len(kube.Actions()); n != requests {
			t.Errorf("%d requests, want %d", n, requests)
		}
	}
	trouble = errors.New("the API server is away")
	if _, err := j.Joins(t.Context(), bootstrapkind.Facts{Node: node("n", "pool1")}); !errors.Is(err, trouble) {
		t.Fatal(err)
	}
	trouble = nil
	known, err := membership.Joins(t.Context(), kube, bootstrapkind.Facts{Node: node("n", "pool1")})
	if err != nil || known.Profile == "" {
		t.Fatalf("%+v, %v", known, err)
	}
	ask(known.Profile, 1)
	ask(known.Profile, 0)
	now = now.Add(time.Hour)
	trouble = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "kubeadm-config", nil)
	ask("", 1)
	ask("", 0)
}
