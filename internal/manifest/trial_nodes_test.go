package manifest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// nodeSeen is a Node whose kubelet has reported until a time after the registration.
type nodeSeen struct {
	name   string
	ready  corev1.ConditionStatus // empty: the kubelet never reported
	age    time.Duration
	marked bool
}

func (n nodeSeen) create(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{"kubernetes.io/os": "linux"}}}
	if n.marked {
		made.Labels["kamino.dev/trial"] = "uid"
	}
	made, err := admin.CoreV1().Nodes().Create(t.Context(), made, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), n.name, metav1.DeleteOptions{})
	})
	if n.ready == "" {
		return
	}
	at := metav1.NewTime(made.CreationTimestamp.Add(n.age))
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: n.ready, LastHeartbeatTime: at, LastTransitionTime: at},
		{Type: "OfAnotherTool", Status: corev1.ConditionFalse}}
	if _, err := admin.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestEngineDeletesOnlyNodesOfTrials: the engine's account deletes a Node that is down and has the mark of a trial, and no other. It
// cannot mark a Node that has served for an hour, and cannot change what the Node reports. Without the role, it deletes none.
func TestEngineDeletesOnlyNodesOfTrials(t *testing.T) {
	admin := kubernetes.NewForConfigOrDie(apitest.Server(t))
	client := apitest.Client(t)
	for _, object := range documents(t, Options{DeleteTrialNodes: true}) {
		switch object.GetKind() {
		case "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			create := object.DeepCopy()
			if err := client.Create(t.Context(), create); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
			} else if err == nil {
				t.Cleanup(func() { _ = client.Delete(context.WithoutCancel(t.Context()), create) })
			}
		}
	}
	engine := account(t, "system:serviceaccount:kamino-system:kamino-engine", "system:serviceaccounts")
	other := account(t, "system:serviceaccount:elsewhere:kamino-engine", "system:serviceaccounts")
	remove := func(as kubernetes.Interface, name string) error {
		return as.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{})
	}
	label := func(as kubernetes.Interface, name, body string) error {
		_, err := as.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	const mark = `{"metadata":{"labels":{"kamino.dev/trial":"uid"}},"spec":{"unschedulable":true}}`
	probe := nodeSeen{name: "probe", ready: corev1.ConditionTrue}
	probe.create(t, admin)
	waitForPolicy(t, "kamino-trial-nodes", func(int) error {
		return engine.CoreV1().Nodes().Delete(t.Context(), probe.name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	})
	for _, c := range []struct {
		nodeSeen
		marks, says string
	}{
		{nodeSeen{name: "trial-down", ready: corev1.ConditionUnknown, age: 30 * time.Minute, marked: true}, "", ""},
		{nodeSeen{name: "kept-trial-down", ready: corev1.ConditionFalse, age: 20 * time.Hour, marked: true}, "", ""},
		{nodeSeen{name: "never-reported", marked: true}, "", ""},
		{nodeSeen{name: "joins-then-down", ready: corev1.ConditionFalse, age: time.Minute}, "now", ""},
		{nodeSeen{name: "trial-ready", ready: corev1.ConditionTrue, age: time.Minute, marked: true}, "", "no node that is Ready"},
		{nodeSeen{name: "down", ready: corev1.ConditionUnknown, age: time.Minute}, "", "no node but those of trials"},
		{nodeSeen{name: "served-then-down", ready: corev1.ConditionUnknown, age: 2 * time.Hour}, "refused", "no node but those of trials"},
		{nodeSeen{name: "serves", ready: corev1.ConditionTrue, age: 2 * time.Hour}, "refused", "no node but those of trials"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.create(t, admin)
			if c.marks != "" {
				err := label(engine, c.name, mark)
				if refused := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "marks no node"); refused != (c.marks == "refused") {
					t.Errorf("the mark: %v", err)
				}
				if err := label(engine, c.name, `{"metadata":{"annotations":{"kamino.dev/reservation":"x"}},"spec":{"unschedulable":true}}`); err != nil {
					t.Errorf("another write: %v", err)
				}
			}
			_, err := engine.CoreV1().Nodes().Patch(t.Context(), c.name, types.MergePatchType,
				[]byte(`{"status":{"conditions":null}}`), metav1.PatchOptions{}, "status")
			if !apierrors.IsForbidden(err) {
				t.Errorf("the account writes the status of a Node: %v", err)
			}
			if err := remove(other, c.name); !apierrors.IsForbidden(err) {
				t.Errorf("an account of another namespace: %v", err)
			}
			err = remove(engine, c.name)
			_, gone := admin.CoreV1().Nodes().Get(t.Context(), c.name, metav1.GetOptions{})
			switch {
			case c.says == "" && (err != nil || !apierrors.IsNotFound(gone)):
				t.Errorf("it is not deleted: %v, %v", err, gone)
			case c.says != "" && (!apierrors.IsForbidden(err) || !strings.Contains(fmt.Sprint(err), c.says) || gone != nil):
				t.Errorf("want a refusal with %q: %v, %v", c.says, err, gone)
			}
		})
	}
	err := engine.CoreV1().Nodes().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "kamino.dev/trial"})
	if !apierrors.IsForbidden(err) {
		t.Errorf("many at once: %v", err)
	}
	if err := remove(admin, probe.name); err != nil {
		t.Errorf("an administrator is refused: %v", err)
	}
}
