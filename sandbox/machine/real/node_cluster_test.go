//go:build machines

package real

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/kamino-dev/kamino/sandbox/authority"
	"github.com/kamino-dev/kamino/sandbox/controlplane"
)

// cluster is a lab with a real control plane and a registry, both on the machines' network.
type cluster struct {
	*lab
	plane    *controlplane.ControlPlane
	client   kubernetes.Interface
	registry *registry
	// programs is the directory of kubelet, kubeadm and the workload's program. containerd is the directory of
	// containerd and its programs.
	programs, containerd string
	// kubeconfig has all rights. Nodes verify the control plane by caHash.
	kubeconfig, caHash string
}

// newCluster starts everything that a generic machine needs to become a node. password is the login to the
// registry's private images.
func newCluster(t *testing.T, password string) *cluster {
	t.Helper()
	c := &cluster{lab: newLab(t), programs: os.Getenv("KAMINO_NODE_BIN"), containerd: os.Getenv("KAMINO_CONTAINERD_BIN")}
	if c.programs == "" || c.containerd == "" {
		t.Fatal("KAMINO_NODE_BIN and KAMINO_CONTAINERD_BIN must name directories of programs; `make test-machines` builds them and sets both")
	}
	c.dhcp.router = true
	c.registry = serveRegistry(t, c.address, filepath.Join(c.programs, "container"), password)
	dir := filepath.Join(c.dir, "control-plane")
	ca, err := authority.Open(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	// Kubelets renew their Leases every 10 s.
	c.plane, err = controlplane.Start(t.Context(), controlplane.Options{
		Dir: dir, Authority: ca, JoinAddress: c.address, NodeGrace: 50 * time.Second, EvictAfter: 10 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	if c.client, err = kubernetes.NewForConfig(c.plane.Admin()); err != nil {
		t.Fatal(err)
	}
	content, err := c.plane.Kubeconfig("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	c.kubeconfig = filepath.Join(dir, "admin.kubeconfig")
	write(t, c.kubeconfig, string(content), 0o600)
	c.caHash = publicKeyHash(t, ca.CertPEM())
	c.initialize(t, dir)
	return c
}

// publicKeyHash is kubeadm's way to name a certificate authority.
func publicKeyHash(t *testing.T, certificate []byte) string {
	t.Helper()
	block, _ := pem.Decode(certificate)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(parsed.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// endpoint of the API server.
func (c *cluster) endpoint() string { return net.JoinHostPort(c.address, strconv.Itoa(c.plane.Port())) }

// kubeadm runs the host's kubeadm, which is also the nodes' kubeadm.
func (c *cluster) kubeadm(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSpace(run(t, filepath.Join(c.programs, "kubeadm"), append(args, "--kubeconfig", c.kubeconfig)...))
}

// initialize lets kubeadm create the objects that a join reads.
func (c *cluster) initialize(t *testing.T, dir string) {
	t.Helper()
	version := strings.TrimSpace(run(t, filepath.Join(c.programs, "kubeadm"), "version", "--output", "short"))
	config := filepath.Join(dir, "kubeadm.yaml")
	write(t, config, fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: %q, bindPort: %d}
nodeRegistration: {name: control-plane, criSocket: "unix:///run/containerd/containerd.sock"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
controlPlaneEndpoint: %s
networking: {serviceSubnet: 10.0.0.0/24, podSubnet: 10.244.0.0/16}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
failCgroupV1: false
`, c.address, c.plane.Port(), version, c.endpoint()), 0o600)
	c.kubeadm(t, "init", "phase", "upload-config", "all", "--config", config)
	c.kubeadm(t, "init", "phase", "bootstrap-token", "--skip-token-print", "--config", config)
}

// nodeRecipe is the user data of one machine like Cluster API's kubeadm provider, with its own token.
// SystemVerification is ignored, because cgroups v1, which the host may have, are an error there. The output of
// kubeadm's checks goes to preflightLog.
func (c *cluster) nodeRecipe(t *testing.T) (userData, token string) {
	t.Helper()
	token = c.kubeadm(t, "token", "create", "--ttl", "1h")
	return fmt.Sprintf(`## template: jinja
#cloud-config
write_files:
- path: /run/kubeadm/kubeadm-join-config.yaml
  owner: root:root
  permissions: "0640"
  content: |
    apiVersion: kubeadm.k8s.io/v1beta4
    kind: JoinConfiguration
    discovery:
      bootstrapToken:
        apiServerEndpoint: %s
        caCertHashes: [%q]
        token: %s
    nodeRegistration:
      name: "{{ ds.meta_data.local_hostname }}"
      criSocket: unix:///run/containerd/containerd.sock
      ignorePreflightErrors: [SystemVerification]
- path: /run/cluster-api/placeholder
  permissions: "0640"
  content: "makes the directory"
runcmd:
- hostname "{{ ds.meta_data.local_hostname }}"
- echo "{{ ds.meta_data.local_hostname }}" >/etc/hostname
- printf '127.0.0.1 localhost\n127.0.0.1 {{ ds.meta_data.local_hostname }}\n' >/etc/hosts
- kubeadm join phase preflight --config /run/kubeadm/kubeadm-join-config.yaml >`+preflightLog+` 2>&1; echo "exit code $?" >>`+preflightLog+`
- kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml && echo success >/run/cluster-api/bootstrap-success.complete
`, c.endpoint(), c.caHash, token), token
}

// preflightLog has the output of "kubeadm join phase preflight" of a machine, in memory.
const preflightLog = "/run/cluster-api/preflight.log"

// awaitPod waits until the workload's pod runs on a node, and returns its name and container ID. After a reboot the
// status is stale for a while, so the container must differ from before.
func (c *cluster) awaitPod(t *testing.T, node, before string) (name, container string) {
	t.Helper()
	var last string
	defer func() {
		if name == "" {
			t.Logf("what was seen last of the pod on %s: %s", node, last)
		}
	}()
	await(t, "the workload to run on "+node, func() bool {
		pods, err := c.client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			last = err.Error()
			return false
		}
		for _, pod := range pods.Items {
			last = fmt.Sprintf("%s %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
			for _, status := range pod.Status.ContainerStatuses {
				if status.Ready && pod.DeletionTimestamp == nil && status.ContainerID != before {
					name, container = pod.Name, status.ContainerID
				}
			}
		}
		return name != ""
	})
	return name, container
}

// exec runs a command in a pod's container, with something to read, through API server and kubelet.
func (c *cluster) exec(ctx context.Context, pod, stdin string, command ...string) (string, error) {
	request := c.client.CoreV1().RESTClient().Post().Namespace(metav1.NamespaceDefault).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: command, Stdin: stdin != "", Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.plane.Admin(), "GET", request.URL().String())
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	options := remotecommand.StreamOptions{Stdout: &out, Stderr: &out}
	if stdin != "" {
		options.Stdin = strings.NewReader(stdin)
	}
	err = executor.StreamWithContext(ctx, options)
	return strings.TrimSpace(out.String()), err
}

// inPod is exec of a command that must succeed.
func (c *cluster) inPod(t *testing.T, pod, stdin string, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	defer cancel()
	out, err := c.exec(ctx, pod, stdin, command...)
	if err != nil {
		t.Fatalf("%s in %s: %v\n%s", command, pod, err, out)
	}
	return out
}
