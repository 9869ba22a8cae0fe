package kubeadm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestCopy captures a node, and then a node from its image, with the method that Kamino chooses. Both donors serve all the time with
// their pods. Only Kamino deletes the Nodes of the workshops.
func TestCopy(t *testing.T) {
	if sandbox.AWS() == nil {
		t.Skip("TestCopyOnAzure is for Azure")
	}
	t.Parallel()
	e := newEnv(t, "name=copied,nodes=2")
	identities := map[string]map[string]string{}
	donor := e.Machines[0]
	for round := range 2 {
		version, before, requests := fmt.Sprintf("%s%02d", time.Now().UTC().Format("2006.01.02"), round+2), e.State(), e.countRequests()
		pods := e.runPod(donor.Node)
		identities[donor.Node] = e.identityOf(donor)
		e.Start("capture", donor.Node, "--version", version, "--trial", string(v1alpha1.TrialOff), "-f", sandboxtest.SettingsFile(t, "")).
			ExpectExit(0, "node "+donor.Node+" is no longer reserved, and stayed in service", "out of service for 0s")
		e.AssertCopied(before, donor.Node)
		if now := e.countRequests(); now != requests+1 {
			t.Errorf("the workshop asked for %d certificates", now-requests)
		}
		if now := e.podsOn(donor.Node); !maps.Equal(now, pods) {
			t.Errorf("the donor has the pods %v, and had %v", now, pods)
		}
		if now := e.Machine(donor.Node); now.BootID != donor.BootID || now.MachineID != donor.MachineID {
			t.Errorf("donor %s was rebooted or rebuilt", donor.Node)
		}
		donor = e.Grow()
		e.assertCopy(donor, version, identities)
	}
}

// TestCopyOnAzure captures nodes that joined with kubeadm by copies of their disks. The donors serve all the time, with the same boot,
// Node and pods. The workshop joins by the pool's customData, which Azure never returns, and is gone afterwards with everything else.
func TestCopyOnAzure(t *testing.T) {
	if sandbox.Azure() == nil {
		t.Skip("TestCopy is for AWS")
	}
	t.Parallel()
	e := newEnv(t, "name=bycopy,nodes=2")
	donor := e.Machines[0]
	identities := map[string]map[string]string{donor.Node: e.identityOf(donor), e.Machines[1].Node: e.identityOf(e.Machines[1])}
	pods := e.runPod(donor.Node)
	node, before := e.Node(donor.Node), e.State()
	flags := []string{"--method", string(v1alpha1.MethodCopy)}
	e.Capture(donor.Node, flags...).ExpectExit(exitRefused, "PoolNotCopyable", "--custom-data FILE")
	e.AssertState(before)
	file := filepath.Join(t.TempDir(), "cloud-init.yaml")
	e.Must(os.WriteFile(file, e.specOf(donor).CustomData, 0o600))
	flags = append(flags, "--custom-data", file)
	e.Capture(donor.Node, flags...).ExpectExit(0, "stayed in service", "now builds new nodes from version ")

	after, machine := e.Node(donor.Node), e.Machine(donor.Node)
	if after.UID != node.UID || after.Spec.Unschedulable || machine.BootID != donor.BootID || machine.Boots != donor.Boots {
		t.Errorf("the donor is not as it was: %+v, %+v", after.Spec, machine)
	}
	if now := e.podsOn(donor.Node); !maps.Equal(now, pods) {
		t.Errorf("the donor has the pods %v, and had %v", now, pods)
	}
	e.AssertServes(donor.Node)
	e.AssertNothingLeft()
	if now := e.State(); now.Capacity != before.Capacity {
		t.Errorf("the pool is to have %d nodes, and had %d", now.Capacity, before.Capacity)
	}
	p := e.Prototype()
	if frozen := p.Status.Donor.FrozenFor; frozen == nil || frozen.Duration <= 0 {
		t.Errorf("the disk was frozen for %v", frozen)
	}
	e.assertCopy(e.growFrom(p.Spec.Version), p.Spec.Version, identities)
}

// runPod runs a pod that no controller would make again, and returns the pods of the node.
func (e env) runPod(node string) (pods map[types.UID]int32) {
	e.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "serves-" + node}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "registry.example/app:1"}},
	}}
	_, err := e.Kube().CoreV1().Pods(metav1.NamespaceDefault).Create(e.Context(), pod, metav1.CreateOptions{})
	e.Must(err)
	e.Eventually("the pod runs", func() (bool, string) {
		pods = e.podsOn(node)
		return len(pods) > 0, fmt.Sprint(pods)
	})
	return pods
}

// podsOn are the users' pods of a node by UID, with the restarts of their containers.
func (e env) podsOn(node string) map[types.UID]int32 {
	e.Helper()
	list, err := e.Kube().CoreV1().Pods(metav1.NamespaceAll).List(e.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	e.Must(err)
	found := map[types.UID]int32{}
	for _, pod := range list.Items {
		if pod.Namespace == e.PodNamespace || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		found[pod.UID] = 0
		for _, c := range pod.Status.ContainerStatuses {
			found[pod.UID] += c.RestartCount
		}
	}
	return found
}
