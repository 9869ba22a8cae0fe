package capi

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"
)

const objectsOfGroup = `
apiVersion: v1
kind: Secret
metadata: {name: boot, namespace: clusters}
data: {value: bm90aGluZw==}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: home, namespace: clusters}
spec: {}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: workers, namespace: clusters, uid: pool, labels: {cluster.x-k8s.io/cluster-name: home}}
spec:
  replicas: 2
  template: {spec: {bootstrap: {dataSecretName: boot}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachinePool
metadata:
  name: workers
  namespace: clusters
  labels: {cluster.x-k8s.io/cluster-name: home}
  finalizers: [sandbox.kamino.dev/machine]
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachinePool, name: workers, uid: pool}]
spec: {awsLaunchTemplate: {ami: {id: ami-1}}}
`

// groupInMemory is a single group.
type groupInMemory struct {
	Groups
	group Group
}

func (g *groupInMemory) Get(context.Context, Machine) (Group, error) { return g.group, nil }

func (g *groupInMemory) Publish(context.Context, Machine) error {
	g.group.Image = "ami-1"
	return nil
}

func (g *groupInMemory) Create(_ context.Context, _ Machine, desired int64) error {
	g.group.There, g.group.ID, g.group.Desired = true, "arn", desired
	return nil
}

// TestIntervalOfGroups: the provider looks at a new group after 15 seconds, and later every three minutes.
func TestIntervalOfGroups(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	var all []client.Object
	for document := range strings.SplitSeq(objectsOfGroup, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		if gvk := o.GroupVersionKind(); !scheme.Recognizes(gvk) {
			scheme.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
			scheme.AddKnownTypeWithName(gvk.GroupVersion().WithKind(gvk.Kind+"List"), &unstructured.UnstructuredList{})
		}
		all = append(all, o)
	}
	machines := infrastructureAWS.WithKind("AWSMachine")
	scheme.AddKnownTypeWithName(machines, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(infrastructureAWS.WithKind("AWSMachineList"), &unstructured.UnstructuredList{})
	metav1.AddToGroupVersion(scheme, infrastructureAWS)
	objects := fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).WithStatusSubresource(all[3]).Build()
	r := &groupReconciler{client: objects, direct: objects, groups: &groupInMemory{}, interval: GroupInterval}
	for _, want := range []time.Duration{15 * time.Second, 3 * time.Minute, 3 * time.Minute} {
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(all[3])})
		if err != nil || result.RequeueAfter != want {
			t.Errorf("the provider looks again after %s, want %s: %v", result.RequeueAfter, want, err)
		}
	}
}
