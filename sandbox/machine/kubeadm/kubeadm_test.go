package kubeadm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/sandbox/authority"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

func TestFind(t *testing.T) {
	want := Order{Server: "10.0.0.1:6443", Token: "abcdef.0123456789abcdef", CAHash: "sha256:" + strings.Repeat("0a", 32)}
	for name, text := range map[string]string{
		"alone":    want.Command(),
		"a script": "#!/bin/sh\nset -e\n" + want.Command() + " --v=5\necho done\n",
		"a list":   "swapoff -a " + want.Command(),
	} {
		got, err := Find(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	for _, text := range []string{"", "kubeadm init", "kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef", "systemctl start kubelet"} {
		if got, err := Find(text); err == nil {
			t.Errorf("%q is an order to join %s", text, got.Server)
		}
	}
}

func TestHash(t *testing.T) {
	ca, err := authority.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	hash, err := Hash(ca.CertPEM())
	if again, _ := Hash(ca.CertPEM()); err != nil || again != hash || len(hash) != len("sha256:")+64 {
		t.Errorf("%q, then %q (%v)", hash, again, err)
	}
	other, err := authority.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if same, _ := Hash(other.CertPEM()); same == hash {
		t.Error("two authorities have one pin")
	}
	for _, bad := range []string{"", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if hash, err := Hash([]byte(bad)); err == nil {
			t.Errorf("%q is pinned by %s", bad, hash)
		}
	}
}

// TestPreflight: messages name each file like kubeadm, with dashes instead of slashes in the path. A worker may have static
// pods before its join.
func TestPreflight(t *testing.T) {
	allowed := t.TempDir()
	for _, path := range []string{"", "etc/kubernetes/manifests/pod.yaml", "etc/kubernetes/pki/front-proxy-ca.crt"} {
		if path != "" {
			if err := disk.WriteFile(filepath.Join(allowed, path), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := Preflight(allowed); err != nil {
			t.Errorf("with /%s: %v", path, err)
		}
	}
	for path, want := range map[string]string{
		"etc/kubernetes/kubelet.conf":           "[ERROR FileAvailable--etc-kubernetes-kubelet.conf]: /etc/kubernetes/kubelet.conf already exists",
		"etc/kubernetes/bootstrap-kubelet.conf": "[ERROR FileAvailable--etc-kubernetes-bootstrap-kubelet.conf]",
		"etc/kubernetes/pki/ca.crt":             "[ERROR FileAvailable--etc-kubernetes-pki-ca.crt]",
	} {
		root := t.TempDir()
		if err := disk.WriteFile(filepath.Join(root, path), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Preflight(root); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with /%s: %v", path, err)
		}
		// The error must come before any request, so that no object is left.
		if err := Join(t.Context(), root, "n", Order{}, time.Minute); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a join with /%s: %v", path, err)
		}
	}
}

// TestNotRunning: the disk can join later.
func TestNotRunning(t *testing.T) {
	root := t.TempDir()
	order := Order{Server: "127.0.0.1:1", Token: "abcdef.0123456789abcdef", CAHash: "sha256:" + strings.Repeat("0a", 32)}
	if err := Join(t.Context(), root, "n", order, time.Second); err == nil || !strings.Contains(err.Error(), "discovery") {
		t.Errorf("joined without a server: %v", err)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
		t.Errorf("what is left: %v (%v)", entries, err)
	}
}

// TestConfig reads a node's kubeconfig with the disk as root.
func TestConfig(t *testing.T) {
	root := t.TempDir()
	kubeconfig := `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443", certificate-authority: /etc/kubernetes/pki/ca.crt}}]
users: [{name: u, user: {client-certificate: /var/lib/kubelet/pki/current.pem, client-key: ` + root + `/var/lib/kubelet/pki/current.pem}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
	pem := filepath.Join(root, "var/lib/kubelet/pki/current.pem")
	path := filepath.Join(root, kubeconfigPath)
	if err := errors.Join(disk.WriteFile(pem, nil, 0o600), disk.WriteFile(filepath.Join(root, authorityPath), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := disk.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rename(root, path); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(path); err != nil || strings.Contains(string(content), root) {
		t.Errorf("a node would look for its files here: %s (%v)", content, err)
	}
	config, err := Config(root)
	if err != nil {
		t.Fatal(err)
	}
	if got := config.TLSClientConfig; got.CertFile != pem || got.KeyFile != pem || got.CAFile != filepath.Join(root, authorityPath) || config.Host != "https://10.0.0.1:6443" {
		t.Errorf("%+v", got)
	}
}
