package trouble

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// specOf returns the spec from which the cloud built a node's machine, including fields that no GET shows.
// Extensions are sorted.
func specOf(e *sandboxtest.Env, node string) fleet.Spec {
	e.Helper()
	for _, s := range sandbox.Cloud().Specs() {
		if s.ComputerName == node {
			slices.SortFunc(s.Extensions, func(a, b fleet.Extension) int { return strings.Compare(a.Name, b.Name) })
			return s
		}
	}
	e.Fatalf("node %s has no machine", node)
	return fleet.Spec{}
}

// grantSecrets grants what --custom-data needs (docs/reference/prototype.md).
func grantSecrets(e *sandboxtest.Env) {
	e.Helper()
	sandbox.Must(e.T, "kubectl", "-n", e.Namespace, "create", "role", "custom-data", "--resource=secrets", "--verb=create,get,patch,delete")
	sandbox.Must(e.T, "kubectl", "-n", e.Namespace, "create", "rolebinding", "custom-data", "--role=custom-data",
		"--serviceaccount="+e.Namespace+":kamino-engine")
}

// TestRestoredPoolBootstraps: the first capture gets a copy of the pool's customData, which no cloud returns. With
// the copy, `kamino restore` makes the next node bootstrap from the same bytes, even without the Prototype.
func TestRestoredPoolBootstraps(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=restore,nodes=2")
	first := specOf(e, e.Donor)
	file := filepath.Join(t.TempDir(), "cloud-init.yaml")
	e.Must(os.WriteFile(file, first.CustomData, 0o600))
	grantSecrets(e)
	e.Capture(e.Donor, "--custom-data", file).ExpectExit(0)
	p := e.AssertSucceeded(e.Donor)

	secrets := e.Kube().CoreV1().Secrets(e.Namespace)
	copied, err := secrets.Get(t.Context(), p.Spec.Settings.Recipe.CustomDataFrom.Name, metav1.GetOptions{})
	e.Must(err)
	if owners := copied.OwnerReferences; len(owners) != 1 || owners[0].UID != p.UID {
		t.Errorf("the copy of customData is owned by %v", owners)
	}
	e.Must(e.PrototypeClient().Delete(e.Context(), p.Name, metav1.DeleteOptions{}))
	e.Eventually("the copy is deleted with its Prototype", func() (bool, string) {
		_, err := secrets.Get(t.Context(), copied.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	isBootstrap := func(x fleet.Extension) bool { return x.Name == "vmssCSE" }
	if s := specOf(e, e.Grow().Node); strings.Contains(string(s.CustomData), "provision.sh") || slices.ContainsFunc(s.Extensions, isBootstrap) {
		t.Fatalf("a node of the version still bootstraps: %q, %v", s.CustomData, s.Extensions)
	}

	// Without the Prototype only the list of Secrets leads to the saved recipe.
	e.Start("restore", e.Group, "--yes").ExpectExit(exitRefused, "the credential may not list Secrets")
	sandbox.Must(e.T, "kubectl", "-n", e.Namespace, "create", "role", "list-secrets", "--resource=secrets", "--verb=list")
	sandbox.Must(e.T, "kubectl", "-n", e.Namespace, "create", "rolebinding", "list-secrets", "--role=list-secrets",
		"--serviceaccount="+e.Namespace+":kamino-engine")

	// The settings of the extension were never saved and are missing. customData is present.
	missing := e.Start("restore", e.Group, "--yes")
	missing.ExpectExit(exitRefused, "PartMissing: the cloud never returned all of extension vmssCSE", "--protected-settings-from vmssCSE=SECRET[/KEY]")
	if missing.HasOutput("--custom-data-from") {
		t.Error("customData is missing, though a copy was kept")
	}
	_, err = secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cse"},
		StringData: map[string]string{"protectedSettings": `{"commandToExecute": "/bin/bash /opt/azure/containers/provision.sh"}`},
	}, metav1.CreateOptions{})
	e.Must(err)
	e.Start("restore", e.Group, "--yes", "--protected-settings-from", "vmssCSE=cse").ExpectExit(0)
	if now := e.CloudPool(); now.Image != e.Before.Image {
		t.Errorf("the pool builds from %s, and did from %s", now.Image, e.Before.Image)
	}
	last := specOf(e, e.Grow().Node)
	if diff := cmp.Diff(first.Extensions, last.Extensions); diff != "" || !slices.Equal(first.CustomData, last.CustomData) || first.Image != last.Image {
		t.Errorf("a new node is built from image %s with customData %q, the first from %s with %q; extensions (-first +new):\n%s",
			last.Image, last.CustomData, first.Image, first.CustomData, diff)
	}
}
