// Package kubeadm tests pools whose nodes join automatically, end to end. The nodes use a bootstrap token from the
// recipe, and then their own credentials.
package kubeadm

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/kubeadm"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// exitRefused is an exit code of kamino.
const exitRefused = 3

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	// Tests wait far more than they work. The command line has precedence.
	_ = flag.Set("test.parallel", "4")
	os.Exit(sandboxtest.EachCloud(m, world.Options{
		TimeScale: 200, KeepNodes: true, Azure: region.AzureOptions{Latencies: azure.Latencies{Version: 10 * time.Minute}},
		AWS: region.AWSOptions{Lag: 30 * time.Second},
	}, &sandbox))
}

// env is the environment of a test with a pool of kubeadm's.
type env struct{ *sandboxtest.Env }

func newEnv(t *testing.T, description string) env {
	t.Helper()
	return env{sandbox.NewEnv(t, description+",profile=bootstrap")}
}

// identityFiles contain the identity and credential of one node.
var identityFiles = []string{
	"etc/machine-id", "etc/hostname", "etc/ssh/ssh_host_ed25519_key", "var/lib/kubelet/pki/kubelet-client-current.pem",
	"var/lib/kubelet/pki/kubelet.key", "var/lib/cloud/data/instance-id",
}

// identityOf returns the digest of each identity file of a machine.
func (e env) identityOf(m machine.Status) map[string]string {
	e.Helper()
	identity := map[string]string{}
	for _, file := range identityFiles {
		content, err := os.ReadFile(filepath.Join(m.Disk, file))
		if err != nil || len(content) == 0 {
			e.Fatalf("/%s of %s: %d bytes, %v", file, m.Node, len(content), err)
		}
		identity[file] = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	return identity
}

// specOf returns the spec from which the cloud built a machine.
func (e env) specOf(m machine.Status) fleet.Spec {
	e.Helper()
	all := sandbox.Cloud().Specs()
	at := slices.IndexFunc(all, func(spec fleet.Spec) bool { return strings.EqualFold(spec.ID, m.ID) })
	if at < 0 {
		e.Fatalf("the cloud has no instance %s", m.ID)
	}
	return all[at]
}

// clientOf is a client with the credential on a node's disk.
func (e env) clientOf(m machine.Status) *kubernetes.Clientset {
	e.Helper()
	config, err := kubeadm.Config(m.Disk)
	e.Must(err)
	client, err := kubernetes.NewForConfig(config)
	e.Must(err)
	return client
}

// tokenSecret is the Secret with the pool's bootstrap token.
func (e env) tokenSecret() *corev1.Secret {
	e.Helper()
	secrets, err := e.Kube().CoreV1().Secrets(metav1.NamespaceSystem).List(e.Context(), metav1.ListOptions{})
	e.Must(err)
	for _, s := range secrets.Items {
		if s.Type == corev1.SecretTypeBootstrapToken && strings.HasSuffix(string(s.Data["description"]), " "+e.Pool) {
			return &s
		}
	}
	e.Fatalf("pool %s has no token", e.Pool)
	return nil
}

// countRequests counts the certificate requests of nodes with the pool's token.
func (e env) countRequests() int {
	e.Helper()
	user := "system:bootstrap:" + string(e.tokenSecret().Data["token-id"])
	all, err := e.Kube().CertificatesV1().CertificateSigningRequests().List(e.Context(), metav1.ListOptions{})
	e.Must(err)
	return len(slices.DeleteFunc(all.Items, func(r certificatesv1.CertificateSigningRequest) bool { return r.Spec.Username != user }))
}
