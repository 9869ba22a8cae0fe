package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

// TestIDIsReadOnce: the ID is the UID of kube-system. An error says what to do, and the next call asks again.
func TestIDIsReadOnce(t *testing.T) {
	kube := fake.NewClientset()
	var denied error
	asked := 0
	kube.PrependReactor("get", "namespaces", func(kubetesting.Action) (bool, runtime.Object, error) {
		asked++
		return denied != nil, nil, denied
	})
	id := ID(kube)
	expect := func(want, says string) {
		t.Helper()
		got, err := id(t.Context())
		if got != want || (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("the ID is %q, %v; want %q, %q", got, err, want, says)
		}
	}
	expect("", `namespaces "kube-system" not found`)
	denied = apierrors.NewForbidden(corev1.Resource("namespaces"), "kube-system", nil)
	expect("", "apply the roles of this version (`kamino manifests`)")
	denied = nil
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}
	if err := kube.Tracker().Add(system); err != nil {
		t.Fatal(err)
	}
	expect("", "has no UID")
	system.UID = "the-cluster"
	if err := kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("namespaces"), system, ""); err != nil {
		t.Fatal(err)
	}
	expect("the-cluster", "")
	before := asked
	expect("the-cluster", "")
	if asked != before {
		t.Error("the ID was read again")
	}
}
