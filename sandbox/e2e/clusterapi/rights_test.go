package clusterapi

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kamino-dev/kamino/api/v1alpha1"
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

// account makes one that has the documented rights in the Cluster's namespace of the management cluster, and no other. It returns its
// Role, and how the command is told to use it there.
func (g *ground) account(name string) (role *rbacv1.Role, env string) {
	g.Helper()
	role = &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: documented(g.T)}
	if len(role.Rules) < 5 {
		g.Fatalf("the page asks for %+v", role.Rules)
	}
	_, err := sandbox.Kube().RbacV1().Roles(namespace).Create(g.Context(), role, metav1.CreateOptions{})
	g.must(err)
	_, err = sandbox.Kube().RbacV1().RoleBindings(namespace).Create(g.Context(), &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}, metav1.CreateOptions{})
	g.must(err)
	config, err := clientcmd.LoadFromFile(filepath.Join(sandbox.Dir(), "kubeconfig"))
	g.must(err)
	for _, user := range config.AuthInfos {
		user.Impersonate = name
	}
	management := filepath.Join(g.TempDir(), "management")
	g.must(clientcmd.WriteToFile(*config, management))
	return role, "KAMINO_MANAGEMENT_KUBECONFIG=" + management
}

// TestRights: an account with the documented rights is enough for a capture with its trial; one that lacks some is told which.
func TestRights(t *testing.T) {
	g := newGround(t, "rights")
	role, env := g.account("kamino-of-the-workload-cluster")
	g.env = []string{env}

	g.capture(0, []string{"builds its next nodes from version ", "Provisioned: Passed"}, "--trial", string(v1alpha1.TrialApart), "--soak", "1s")
	g.whole(2)
	g.donorGone()

	for i, rule := range role.Rules {
		if rule.Resources[0] == "awsmachinetemplates" {
			role.Rules[i].Verbs = []string{"get", "list"}
		}
	}
	_, err := sandbox.Kube().RbacV1().Roles(namespace).Update(t.Context(), role, metav1.UpdateOptions{})
	g.must(err)
	g.nodes = sandbox.MachinesOf(t, g.pool)
	template := text(*g.deployment(), "spec", "template", "spec", "infrastructureRef", "name")
	g.capture(exitDenied, []string{"PermissionMissing", "create awsmachinetemplates"}, "--version", g.prototype().Spec.Version+"02")
	if now := text(*g.deployment(), "spec", "template", "spec", "infrastructureRef", "name"); now != template {
		t.Errorf("the pool names template %s, and did %s", now, template)
	}
	doctor := sandbox.Run(t, g.env, "kamino", "doctor")
	if said := doctor.Stdout + doctor.Stderr; !strings.Contains(said, "create awsmachinetemplates") || !strings.Contains(said, "docs/cluster-api.md, section Rights") {
		t.Errorf("the doctor does not say what lacks, and what to do:\n%s", said)
	}
}
