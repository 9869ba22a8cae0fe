package capi_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const skipRemediation = "cluster.x-k8s.io/skip-remediation"

// protect protects a Machine as a capture protects its donor.
func (p *pool) protect(r *capi.PoolProvider, m unstructured.Unstructured) {
	p.t.Helper()
	have, err := r.Protection(p.t.Context(), instanceOf(m))
	if err == nil {
		err = r.ProtectFromScaleIn(p.t.Context(), instanceOf(m), have.Token)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// failNode sets a condition on the Machine's Node: the kubelet is silent.
func (p *pool) failNode(m unstructured.Unstructured) {
	p.t.Helper()
	node := &corev1.Node{}
	if err := p.client.Get(p.t.Context(), client.ObjectKey{Name: nodeNameOf(m)}, node); err != nil {
		p.t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
		LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}}
	if err := p.client.Status().Update(p.t.Context(), node); err != nil {
		p.t.Fatal(err)
	}
}

const healthCheck = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: workers, namespace: NAMESPACE}
spec:
  clusterName: home
  selector: {matchLabels: {cluster.x-k8s.io/deployment-name: workers}}
  checks: {nodeStartupTimeoutSeconds: 600, unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 1}]}
  remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 100%}}
`

// TestHealthCheckSparesReservedMachine: two machines fail, and the health check of Cluster API replaces only the
// machine without a reservation.
func TestHealthCheckSparesReservedMachine(t *testing.T) {
	t.Parallel()
	p := newPool(t, deployment)
	all := p.list("Machine")
	held, fails := all[0], all[1]
	p.protect(p.recipes(), held)
	p.failNode(held)
	p.failNode(fails)
	p.create(healthCheck)
	find := func(m unstructured.Unstructured) *unstructured.Unstructured {
		now := p.list("Machine")
		if at := slices.IndexFunc(now, func(n unstructured.Unstructured) bool { return n.GetUID() == m.GetUID() }); at >= 0 {
			return &now[at]
		}
		return nil
	}
	p.wait("replacement of the machine without a reservation", func() bool {
		return find(fails) == nil && len(p.instances()) == 3
	})
	if now := find(held); now == nil || now.GetDeletionTimestamp() != nil {
		t.Errorf("the held machine was remediated: %v", now)
	}
}

// TestReservedMachineDeleted: an operator deletes a reserved Machine to replace the Machine. The deletion waits
// until Kamino releases the Machine, and then a new Machine appears.
func TestReservedMachineDeleted(t *testing.T) {
	t.Parallel()
	p := newPool(t, deployment)
	donor, r := p.list("Machine")[0], p.recipes()
	p.protect(r, donor)
	if err := p.client.Delete(t.Context(), &donor); err != nil {
		t.Fatal(err)
	}
	p.wait("deletion that waits for Kamino", func() bool {
		conditions, _, _ := unstructured.NestedSlice(p.get("Machine", donor.GetName()).Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition := c.(map[string]any)
			return condition["type"] == "Deleting" && condition["reason"] == "WaitingForPreDrainHook"
		})
	})
	p.remove(r, instanceOf(donor))
	p.waitSize(3)
	p.wantAtWork(3)
}

// TestLostAnswersOfProtection: repeated calls protect and release a Machine once, and foreign writes stay.
func TestLostAnswersOfProtection(t *testing.T) {
	t.Parallel()
	p := newPool(t, withTwoMachines(deployment))
	m := p.list("Machine")[0]
	p.merge("Machine", m.GetName(), `{"metadata":{"annotations":{"`+skipRemediation+`":"theirs"}}}`)
	lost := 0
	r := p.watched(p, func(string) memory.Outcome {
		lost++
		return memory.FailAfter(cloud.Unavailable)
	})
	before, err := p.recipes().Protection(t.Context(), instanceOf(m))
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range []func(*capi.PoolProvider) error{
		func(r *capi.PoolProvider) error {
			return r.ProtectFromScaleIn(t.Context(), instanceOf(m), before.Token)
		},
		func(r *capi.PoolProvider) error { return r.Unprotect(t.Context(), instanceOf(m), before.Token) },
	} {
		if err := do(r); !cloud.Is(err, cloud.Unavailable) {
			t.Errorf("with the answer lost: %v", err)
		}
		if err := do(p.recipes()); err != nil {
			t.Errorf("asked again: %v", err)
		}
	}
	if now := p.get("Machine", m.GetName()); lost != 2 || now.GetAnnotations()[skipRemediation] != "theirs" || annotated(*now, hook) {
		t.Errorf("%d answers were lost, and the Machine has %v", lost, now.GetAnnotations())
	}
}
