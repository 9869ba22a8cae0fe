// Package chart tests the Helm chart end to end. Helm's own code installs the chart into a sandbox with the API
// server and controllers of Kubernetes. Kubelets of the sandbox run the real binary for Kamino's image.
package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.EachCloud(m, world.Options{TimeScale: 200, Images: previousImages()}, &sandbox))
}

// skipOtherClouds skips a test that does not depend on the cloud, except on one cloud.
func skipOtherClouds(t *testing.T) {
	t.Helper()
	if sandbox.Azure() == nil {
		t.Skip("this does not depend on the cloud")
	}
}

const (
	// simulated is an image that the sandbox's kubelets do not really run.
	simulated = "registry.example/kamino"
	// enforced is the label with a namespace's Pod Security level.
	enforced = "pod-security.kubernetes.io/enforce"
)

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	policies    = schema.GroupVersionResource{Group: "kamino.dev", Version: "v1alpha1", Resource: "prototypepolicies"}
)

func objects(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(sandbox.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// nodes creates nodes for pods, unless they exist. One node has the labels that variants select.
func nodes(t *testing.T) {
	t.Helper()
	if len(sandbox.MachinesOf(t, "workers")) > 0 {
		return
	}
	node := sandbox.SharedPool(t, "name=workers,nodes=2")[0].Node
	sandbox.Must(t, "kubectl", "label", "node", node, "node-role.kubernetes.io/control-plane=", "pool=system")
}

// newHelm creates a namespace with a Pod Security level, and returns a Helm for this namespace.
func newHelm(t *testing.T, name, level string) helmClient {
	t.Helper()
	nodes(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{enforced: level}}}
	if _, err := sandbox.Kube().CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is ready for pods", func() bool {
		_, err := sandbox.Kube().CoreV1().ConfigMaps(name).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil
	})
	return helmClient{Kubeconfig: filepath.Join(sandbox.Dir(), sandboxdir.KubeconfigFile), Namespace: name, Timeout: 10 * time.Minute}
}

func missing(err error) bool { return apierrors.IsNotFound(err) }

func decode(text []byte, into any) error { return json.Unmarshal(text, into) }
