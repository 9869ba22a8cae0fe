package clusterapi

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// documented are the rights that docs/cluster-api.md asks for.
func documented(t *testing.T) (rules []rbacv1.PolicyRule) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/cluster-api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Rights\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		var resources []string
		for _, found := range quoted.FindAllStringSubmatch(cells[2], -1) {
			resources = append(resources, found[1])
		}
		verbs := strings.Split(strings.ReplaceAll(strings.TrimSpace(cells[3]), " ", ""), ",")
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{quoted.FindStringSubmatch(cells[1])[1]}, Resources: resources, Verbs: verbs})
	}
	return rules
}

// account makes one with the commands of docs/cluster-api.md, whose rights are those of the page's table. It returns its kubeconfig.
func (g *ground) account() (role *rbacv1.Role, kubeconfig string) {
	g.Helper()
	page, err := os.ReadFile("../../../docs/cluster-api.md")
	g.must(err)
	_, script, _ := strings.Cut(string(page), "### From the chart")
	_, script, _ = strings.Cut(script, "```sh\n")
	script, _, found := strings.Cut(script, "```")
	if !found {
		g.Fatal("the page has no commands")
	}
	dir := g.TempDir()
	admin, err := os.ReadFile(filepath.Join(sandbox.Dir(), "kubeconfig"))
	g.must(err)
	g.must(os.WriteFile(filepath.Join(dir, "management.kubeconfig"), admin, 0o600))
	// The token is made a moment after its Secret.
	script = strings.Replace(script, "umask ", "kubectl --kubeconfig management.kubeconfig -n clusters wait secret/kamino --for=jsonpath={.data.token}\numask ", 1)
	command := exec.CommandContext(g.Context(), "sh", "-ec", script)
	command.Env, command.Dir = sandbox.Env(), dir
	if out, err := command.CombinedOutput(); err != nil {
		g.Fatalf("%s\n%v\n%s", script, err, out)
	}
	role, err = sandbox.Kube().RbacV1().Roles(namespace).Get(g.Context(), "kamino", metav1.GetOptions{})
	g.must(err)
	if diff := cmp.Diff(single(documented(g.T)), single(role.Rules)); diff != "" {
		g.Fatalf("rights (-documented +printed):\n%s", diff)
	}
	return role, filepath.Join(dir, "kamino-management", "kubeconfig")
}

// single are all rights of rules, each once.
func single(rules []rbacv1.PolicyRule) (all []string) {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all = append(all, verb+" "+resource+"."+rule.APIGroups[0])
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestRights: an account with the documented rights is enough for a capture with its trial; one that lacks some is told which.
func TestRights(t *testing.T) {
	g := newGround(t, "rights")
	role, kubeconfig := g.account()
	g.env = []string{"KAMINO_MANAGEMENT_KUBECONFIG=" + kubeconfig}

	g.capture(0, []string{"builds its next nodes from version ", "Provisioned: Passed"}, "--trial", string(v1alpha1.TrialApart), "--soak", "1s")
	g.whole(2)
	g.donorGone()

	for i, rule := range role.Rules {
		if rule.Resources[0] == "awsmachinetemplates" {
			role.Rules[i].Verbs = []string{"get", "list"}
		}
	}
	role.ResourceVersion = ""
	_, err := sandbox.Kube().RbacV1().Roles(namespace).Update(t.Context(), role, metav1.UpdateOptions{})
	g.must(err)
	g.nodes = sandbox.MachinesOf(t, g.pool)
	template := sandboxtest.Text(*g.sized(), "spec", "template", "spec", "infrastructureRef", "name")
	g.capture(exitDenied, []string{"PermissionMissing", "create awsmachinetemplates"}, "--version", g.prototype().Spec.Version+"02")
	if now := sandboxtest.Text(*g.sized(), "spec", "template", "spec", "infrastructureRef", "name"); now != template {
		t.Errorf("the pool names template %s, and did %s", now, template)
	}
	doctor := sandbox.Run(t, g.env, "kamino", "doctor")
	if said := doctor.Stdout + doctor.Stderr; !strings.Contains(said, "create awsmachinetemplates") || !strings.Contains(said, "docs/cluster-api.md, section Rights") {
		t.Errorf("the doctor does not say what lacks, and what to do:\n%s", said)
	}
}
