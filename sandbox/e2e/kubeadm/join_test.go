// Package kubeadm tests, end to end, pools whose nodes join by themselves: with a bootstrap token from the recipe, and from
// then on with a credential of their own.
package kubeadm

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/kubeadm"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.EachCloud(m, world.Options{
		TimeScale: 200, KeepNodes: true, Azure: region.AzureOptions{Latencies: azure.Latencies{Version: 10 * time.Minute}},
		AWS: region.AWSOptions{Lag: 30 * time.Second},
	}, &sandbox))
}

// as is a client of who a node's disk says it is.
func as(t *testing.T, m machine.Status) *kubernetes.Clientset {
	t.Helper()
	config, err := kubeadm.Config(m.Disk)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// requests are the certificates that were asked for by holders of a pool's token, by who asked.
func requests(t *testing.T, pool string) []certificatesv1.CertificateSigningRequest {
	t.Helper()
	all, err := sandbox.Kube().CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []certificatesv1.CertificateSigningRequest
	for _, r := range all.Items {
		if r.Spec.Username == "system:bootstrap:"+tokenOf(t, pool).id {
			out = append(out, r)
		}
	}
	return out
}

type token struct{ secret, id string }

// tokenOf a pool, as the cluster keeps it.
func tokenOf(t *testing.T, pool string) token {
	t.Helper()
	secrets, err := sandbox.Kube().CoreV1().Secrets(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets.Items {
		if s.Type == corev1.SecretTypeBootstrapToken && strings.HasSuffix(string(s.Data["description"]), " "+pool) {
			return token{secret: s.Name, id: string(s.Data["token-id"])}
		}
	}
	t.Fatalf("pool %s has no token", pool)
	return token{}
}

func eventually(t *testing.T, what string, look func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, look); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// TestNodesJoinByThemselves holds nodes to what real ones of kubeadm's are: each with a certificate that the cluster has
// signed once, for the holder of the recipe's token, and with no right to what another node has.
func TestNodesJoinByThemselves(t *testing.T) {
	nodes := sandbox.Pool(t, "name=joins,nodes=2,profile=bootstrap")
	if got := requests(t, "joins"); len(got) != len(nodes) {
		t.Errorf("%d nodes joined with %d requests for a certificate", len(nodes), len(got))
	}
	one, other := as(t, nodes[0]), nodes[1].Node
	who, err := one.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != "system:node:"+nodes[0].Node {
		t.Fatalf("node %s is to the API server %+v (%v)", nodes[0].Node, who.Status.UserInfo, err)
	}
	label := []byte(`{"metadata":{"labels":{"example.com/by":"itself"}}}`)
	if _, err := one.CoreV1().Nodes().Patch(t.Context(), nodes[0].Node, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Errorf("a node cannot label itself: %v", err)
	}
	if _, err := one.CoreV1().Nodes().Patch(t.Context(), other, types.MergePatchType, label, metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a node labels another: %v", err)
	}
	// What a copy of its disk would do under a name of its own, if its credential were still there.
	clone := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a-clone"}}
	if _, err := one.CoreV1().Nodes().Create(t.Context(), clone, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a node registers another: %v", err)
	}
	if err := kubeadm.Preflight(nodes[0].Disk); err == nil || !strings.Contains(err.Error(), "FileAvailable--etc-kubernetes-kubelet.conf") {
		t.Errorf("a node that has joined would join once more: %v", err)
	}
	testPod(t, one, nodes[0].Node)

	if err := sandbox.Reboot(t.Context(), nodes[0].Node, func(control.Event) {}); err != nil {
		t.Fatal(err)
	}
	if got := requests(t, "joins"); len(got) != len(nodes) {
		t.Errorf("a reboot made %d requests for a certificate of %d", len(got), len(nodes))
	}
}

// testPod runs a pod that wants a Secret, which the node may read from then on, and not before.
func testPod(t *testing.T, node *kubernetes.Clientset, name string) {
	t.Helper()
	core := sandbox.Kube().CoreV1()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "wanted"}, StringData: map[string]string{"word": "open"}}
	if _, err := core.Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := node.CoreV1().Secrets("default").Get(t.Context(), "wanted", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a node reads a Secret that none of its pods wants: %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "wants"}, Spec: corev1.PodSpec{
		NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "registry.example/app:1"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "wanted"}}}},
	}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	if _, err := core.Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod runs", func(ctx context.Context) (bool, error) {
		got, err := core.Pods("default").Get(ctx, "wants", metav1.GetOptions{})
		return err == nil && got.Status.Phase == corev1.PodRunning, err
	})
	if _, err := node.CoreV1().Secrets("default").Get(t.Context(), "wanted", metav1.GetOptions{}); err != nil {
		t.Errorf("a node cannot read the Secret that its pod has: %v", err)
	}
}

// TestATokenThatHasExpired: what a cluster does with one is to remove it. Nodes that run stay, and no other joins.
func TestATokenThatHasExpired(t *testing.T) {
	nodes := sandbox.Pool(t, "name=expires,nodes=1,profile=bootstrap,token-ttl=1h")
	secrets := sandbox.Kube().CoreV1().Secrets(metav1.NamespaceSystem)
	name := tokenOf(t, "expires").secret
	over := []byte(`{"stringData":{"expiration":"` + time.Now().Add(time.Second).UTC().Format(time.RFC3339) + `"}}`)
	if _, err := secrets.Patch(t.Context(), name, types.MergePatchType, over, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster removes the token", func(ctx context.Context) (bool, error) {
		_, err := secrets.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if _, err := sandbox.Scale(t.Context(), "expires", control.Scale{Nodes: 2}, func(control.Event) {}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new machine says why it is no node", func(context.Context) (bool, error) {
		log, err := os.ReadFile(filepath.Join(sandbox.Dir(), "sandbox.log"))
		return strings.Contains(string(log), "boot got stuck") && strings.Contains(string(log), "kubeadm's discovery"), err
	})
	for _, m := range sandbox.MachinesOf(t, "expires") {
		if m.Node != "" && m.Node != nodes[0].Node {
			t.Errorf("a machine without a token has become node %s", m.Node)
		}
	}
	if _, err := as(t, nodes[0]).CoreV1().Nodes().Get(t.Context(), nodes[0].Node, metav1.GetOptions{}); err != nil {
		t.Errorf("the node that joined before has lost its way in: %v", err)
	}
}
