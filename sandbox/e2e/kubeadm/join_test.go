package kubeadm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine/kubeadm"
)

// TestNodesJoinWithKubeadm compares nodes with real nodes of kubeadm. The cluster signed one certificate per node
// for the holder of the recipe's token. A node has no right to objects of other nodes.
func TestNodesJoinWithKubeadm(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "name=joins,nodes=2")
	if got := e.countRequests(); got != 2 {
		t.Errorf("2 nodes joined with %d requests for a certificate", got)
	}
	name, other := e.Nodes[0], e.Nodes[1]
	node := e.clientOf(e.Machines[0])
	who, err := node.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != "system:node:"+name {
		t.Fatalf("node %s is to the API server %+v (%v)", name, who.Status.UserInfo, err)
	}
	label := []byte(`{"metadata":{"labels":{"example.com/by":"itself"}}}`)
	if _, err := node.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Errorf("a node cannot label itself: %v", err)
	}
	if _, err := node.CoreV1().Nodes().Patch(t.Context(), other, types.MergePatchType, label, metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a node labels another: %v", err)
	}
	// With the credential, a copy of the disk could register under a new name.
	copied := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a-copy"}}
	if _, err := node.CoreV1().Nodes().Create(t.Context(), copied, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a node registers another: %v", err)
	}
	if err := kubeadm.Preflight(e.Machines[0].Disk); err == nil || !strings.Contains(err.Error(), "FileAvailable--etc-kubernetes-kubelet.conf") {
		t.Errorf("a node that has joined would join again: %v", err)
	}
	e.testSecretOfPod(node, name)

	e.Must(sandbox.Reboot(t.Context(), name, func(control.Event) {}))
	if got := e.countRequests(); got != 2 {
		t.Errorf("after a reboot there are %d requests for a certificate of 2 nodes", got)
	}
}

// testSecretOfPod runs a pod that uses a Secret. Only from then on the node may read the Secret.
func (e env) testSecretOfPod(node *kubernetes.Clientset, name string) {
	e.Helper()
	core := e.Kube().CoreV1()
	_, err := core.Secrets("default").Create(e.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "wanted"}, StringData: map[string]string{"word": "open"}}, metav1.CreateOptions{})
	e.Must(err)
	if _, err := node.CoreV1().Secrets("default").Get(e.Context(), "wanted", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		e.Errorf("a node reads a Secret of none of its pods: %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "wants"}, Spec: corev1.PodSpec{
		NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "registry.example/app:1"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "wanted"}}}},
	}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	_, err = core.Pods("default").Create(e.Context(), pod, metav1.CreateOptions{})
	e.Must(err)
	e.Eventually("the pod runs", func() (bool, string) {
		got, err := core.Pods("default").Get(e.Context(), "wants", metav1.GetOptions{})
		e.Must(err)
		return got.Status.Phase == corev1.PodRunning, string(got.Status.Phase)
	})
	if _, err := node.CoreV1().Secrets("default").Get(e.Context(), "wanted", metav1.GetOptions{}); err != nil {
		e.Errorf("a node cannot read the Secret of its pod: %v", err)
	}
}

// TestExpiredToken lets the cluster remove an expired bootstrap token. Running nodes stay, and no other node joins.
func TestExpiredToken(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "name=expires,nodes=1,token-ttl=1h")
	secrets, name := e.Kube().CoreV1().Secrets(metav1.NamespaceSystem), e.tokenSecret().Name
	expired := []byte(`{"stringData":{"expiration":"` + time.Now().Add(time.Second).UTC().Format(time.RFC3339) + `"}}`)
	_, err := secrets.Patch(t.Context(), name, types.MergePatchType, expired, metav1.PatchOptions{})
	e.Must(err)
	e.Eventually("the cluster removes the token", func() (bool, string) {
		_, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	e.Resize(2)
	e.Eventually("the new machine logs why it does not join", func() (bool, string) {
		log, err := os.ReadFile(filepath.Join(sandbox.Dir(), "sandbox.log"))
		e.Must(err)
		return strings.Contains(string(log), "boot got stuck") && strings.Contains(string(log), "kubeadm's discovery"), fmt.Sprintf("%+v", e.MachinesNow())
	})
	for _, m := range e.MachinesNow() {
		if m.Node != "" && m.Node != e.Donor {
			t.Errorf("a machine without a token has become node %s", m.Node)
		}
	}
	if _, err := e.clientOf(e.Machines[0]).CoreV1().Nodes().Get(t.Context(), e.Donor, metav1.GetOptions{}); err != nil {
		t.Errorf("the node that joined before has lost its access: %v", err)
	}
}
