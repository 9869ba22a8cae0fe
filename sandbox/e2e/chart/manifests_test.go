package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/chart"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
	"github.com/kamino-dev/kamino/sandbox/unverified"
)

// TestFromManifestsToTheChart runs the commands of docs/tasks/upgrade.md, after a failed install over the objects of the
// manifests. The user's objects stay, and the account of the new release has the same rights. Then the user
// uninstalls the release during a capture.
func TestFromManifestsToTheChart(t *testing.T) {
	skipOtherClouds(t)
	nodes(t)
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	write(t, file, sandbox.Must(t, "kamino", "manifests", "--controller", "--image", simulated+":1", "--controller-image", simulated+":1"))
	eventually(t, "an earlier release's namespace is gone", func() bool {
		_, err := sandbox.Kube().CoreV1().Namespaces().Get(t.Context(), "kamino-generalize", metav1.GetOptions{})
		return missing(err)
	})
	sandbox.Must(t, "kubectl", "apply", "--server-side", "--force-conflicts", "-f", file)
	kept := createUserObjects(t)

	helm := helmClient{Kubeconfig: filepath.Join(sandbox.Dir(), sandboxdir.KubeconfigFile), Namespace: v1alpha1.DefaultNamespace, Timeout: time.Minute}
	values := chart.Values{"image": chart.Values{"repository": simulated}, "policies": chart.Values{"all": chart.Values{"suspend": true}}}
	roles := clusterRoles(t)
	err := helm.install(t.Context(), "kamino", values, false)
	if err == nil || !strings.Contains(err.Error(), "is of an installation by `kamino manifests`") {
		t.Fatalf("a release over the manifests: %v", err)
	}
	before, after := commandsAround(t, "helm install kamino charts/kamino")
	commands := regexp.MustCompile(`(?m)^  kubectl .*$`).FindAllString(err.Error(), -1)
	for _, command := range commands {
		command = strings.ReplaceAll(strings.TrimSpace(command), "'app.kubernetes.io/name=kamino,!app.kubernetes.io/instance'", `"$mine"`)
		if !strings.Contains(before, command) {
			t.Errorf("docs/tasks/upgrade.md lacks a command of the refusal: %s", command)
		}
	}
	if len(commands) != 4 {
		t.Errorf("the refusal has %d commands:\n%v", len(commands), err)
	}
	if again := clusterRoles(t); !maps.Equal(roles, again) {
		t.Errorf("a release that stopped has changed the ClusterRoles from %v to %v", roles, again)
	}
	wantUserObjects(t, kept)

	shell(t, before)
	if left := sandbox.Must(t, "kubectl", "get", "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding", "-o",
		"name", "-l", "app.kubernetes.io/name=kamino,!app.kubernetes.io/instance"); left != "" {
		t.Errorf("left of the manifests is %s", left)
	}
	eventually(t, "the pods' old namespace is gone", func() bool {
		_, err := sandbox.Kube().CoreV1().Namespaces().Get(t.Context(), "kamino-generalize", metav1.GetOptions{})
		return missing(err)
	})
	if err := helm.install(t.Context(), "kamino", values, false); err != nil {
		t.Fatal(err)
	}
	shell(t, after)
	wantUserObjects(t, kept)
	if level := namespaceOf(t, v1alpha1.DefaultNamespace).Labels[enforced]; level != "restricted" {
		t.Errorf("namespace %s is %q", v1alpha1.DefaultNamespace, level)
	}
	for role := range clusterRoles(t) {
		owner, err := sandbox.Kube().RbacV1().ClusterRoles().Get(t.Context(), role, metav1.GetOptions{})
		if err != nil || owner.Annotations["meta.helm.sh/release-name"] != "kamino" || owner.Labels["app.kubernetes.io/managed-by"] != "Helm" {
			t.Errorf("ClusterRole %s is not the release's: %v, %v", role, owner.Annotations, err)
		}
	}
	for _, may := range [][]string{{"create", "prototypes.kamino.dev"}, {"patch", "nodes"}, {"create", "pods", "--subresource=eviction"}} {
		messages := sandbox.Run(t, nil, "kubectl",
			append([]string{"auth", "can-i"}, append(may, "--as", "system:serviceaccount:kamino-system:kamino", "-A")...)...)
		if strings.TrimSpace(messages.Stdout) != "yes" {
			t.Errorf("the release's account may not %v: %s%s", may, messages.Stdout, messages.Stderr)
		}
	}

	testUninstallDuringCapture(t, helm)
	wantUserObjects(t, kept)
}

// testUninstallDuringCapture: a reservation outlives the release. Commands without the release report and release
// the node.
func testUninstallDuringCapture(t *testing.T, helm helmClient) {
	t.Helper()
	donor := sandbox.Pool(t, "name=forgotten,nodes=2")[0].Node
	capture := exec.Command(sandbox.Kamino, unverified.Capture(donor)...)
	capture.Env = sandbox.Env()
	var messages bytes.Buffer
	capture.Stdout, capture.Stderr = &messages, &messages
	if err := capture.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = capture.Process.Kill() })
	eventually(t, "the donor is held and cordoned", func() bool {
		n := node(t, donor)
		return n.Annotations[v1alpha1.ReservationAnnotation] != "" && n.Spec.Unschedulable
	})
	_ = capture.Process.Kill()
	_ = capture.Wait()
	if n := node(t, donor); n.Annotations[v1alpha1.ReservationAnnotation] == "" {
		t.Fatalf("the capture ended before it was killed:\n%s", &messages)
	}
	if err := helm.uninstall("kamino"); err != nil {
		t.Fatal(err)
	}
	held := sandbox.Run(t, nil, "kamino", "reservations")
	if !strings.Contains(held.Stdout, donor) {
		t.Errorf("the reserved node is not reported: %s%s", held.Stdout, held.Stderr)
	}
	names := regexp.MustCompile(`\S*forgotten\S*-\d{4}\.\d\d\.\d\d\S*`).FindString(sandbox.Must(t, "kubectl", "get", "prototypes", "-o", "name"))
	name := strings.TrimPrefix(names, "prototype.kamino.dev/")
	sandbox.Must(t, "kamino", "cancel", name)
	if n := node(t, donor); n.Spec.Unschedulable || n.Annotations[v1alpha1.ReservationAnnotation] != "" {
		t.Errorf("the node is not released: cordoned %t, %v", n.Spec.Unschedulable, n.Annotations)
	}
	eventually(t, "its Prototype is gone", func() bool {
		list, err := prototypes(t)
		return err == nil && !strings.Contains(fmt.Sprint(list.Items), name)
	})
}

// commandsAround returns the commands of the section in docs/tasks/upgrade.md before and after a line.
func commandsAround(t *testing.T, line string) (before, after string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/tasks/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## From `kamino manifests` to the chart")
	_, block, _ := strings.Cut(section, "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	before, rest, found := strings.Cut(block, line)
	_, after, _ = strings.Cut(rest, "\n")
	if !found || !strings.Contains(before, "kubectl delete clusterrole") || !strings.Contains(after, "kubectl label") {
		t.Fatalf("the section has other commands than this test knows:\n%s", block)
	}
	return before, after
}

// shell runs commands in a shell, in the root of the repository.
func shell(t *testing.T, script string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-ec", script)
	command.Dir, command.Env = "../../..", sandbox.Env()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, out)
	}
}

// userObjects has the UIDs of the user's Kamino objects, by path.
type userObjects map[string]types.UID

// createUserObjects creates a policy, an ended Prototype, and the removed settings of its recipe.
func createUserObjects(t *testing.T) userObjects {
	t.Helper()
	dir := t.TempDir()
	for name, object := range map[string]map[string]any{
		"prototypepolicies/mine": {"apiVersion": "kamino.dev/v1alpha1", "kind": "PrototypePolicy", "metadata": map[string]any{"name": "mine"},
			"spec": map[string]any{"suspend": true}},
		"prototypes/old-2026.01.01": {
			"apiVersion": "kamino.dev/v1alpha1", "kind": "Prototype", "metadata": map[string]any{"name": "old-2026.01.01"},
			"spec": map[string]any{"pool": "old", "version": "2026.01.01",
				"donor": map[string]any{"nodeName": "n",
					"providerID": "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/old/virtualMachines/0"}},
		},
		"secrets/old-2026.01.01-recipe": {
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "old-2026.01.01-recipe", "namespace": v1alpha1.DefaultNamespace},
			"immutable": true, "stringData": map[string]any{"recipe.json": "{}"},
		},
	} {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+".json")
		write(t, file, string(text))
		eventually(t, name+" is made", func() bool { return sandbox.Run(t, nil, "kubectl", "apply", "-f", file).Code == 0 })
	}
	return readUserObjects(t)
}

func readUserObjects(t *testing.T) userObjects {
	t.Helper()
	all := userObjects{}
	for _, name := range []string{
		"prototypepolicies/mine", "prototypes/old-2026.01.01", "secrets/old-2026.01.01-recipe", "namespaces/kamino-system",
		"crds/prototypes.kamino.dev", "crds/nodeorders.kamino.dev",
	} {
		all[name] = types.UID(sandbox.Must(t, "kubectl", "-n", v1alpha1.DefaultNamespace, "get", name, "-o", "jsonpath={.metadata.uid}"))
	}
	return all
}

func wantUserObjects(t *testing.T, kept userObjects) {
	t.Helper()
	if now := readUserObjects(t); !maps.Equal(kept, now) {
		t.Errorf("user objects are %v, want %v", now, kept)
	}
}

func clusterRoles(t *testing.T) userObjects {
	t.Helper()
	list, err := sandbox.Kube().RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=kamino"})
	if err != nil {
		t.Fatal(err)
	}
	all := userObjects{}
	for _, role := range list.Items {
		all[role.Name] = role.UID
	}
	if len(all) == 0 {
		t.Fatalf("there is no %s of Kamino's", rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	}
	return all
}

func node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func namespaceOf(t *testing.T, name string) *corev1.Namespace {
	t.Helper()
	ns, err := sandbox.Kube().CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
