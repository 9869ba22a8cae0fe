package clusterapi

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// newAccount creates an account with the commands of docs/reference/cluster-api.md, and returns its kubeconfig.
func (e *env) newAccount() (role *rbacv1.Role, kubeconfig string) {
	e.Helper()
	page, err := os.ReadFile("../../../docs/reference/cluster-api.md")
	e.Must(err)
	_, script, _ := strings.Cut(string(page), "### From the chart")
	_, script, _ = strings.Cut(script, "```sh\n")
	script, _, found := strings.Cut(script, "```")
	if !found {
		e.Fatal("the page has no commands")
	}
	dir := e.TempDir()
	admin, err := os.ReadFile(filepath.Join(sandbox.Dir(), "kubeconfig"))
	e.Must(err)
	e.Must(os.WriteFile(filepath.Join(dir, "management.kubeconfig"), admin, 0o600))
	// The token appears a moment after its Secret.
	script = strings.Replace(script, "umask ",
		"kubectl --kubeconfig management.kubeconfig -n clusters wait secret/kamino --for=jsonpath={.data.token}\numask ", 1)
	command := exec.CommandContext(e.Context(), "sh", "-ec", script)
	command.Env, command.Dir = sandbox.Env(), dir
	if out, err := command.CombinedOutput(); err != nil {
		e.Fatalf("%s\n%v\n%s", script, err, out)
	}
	role, err = e.Kube().RbacV1().Roles(sandboxtest.ClusterNamespace).Get(e.Context(), "kamino", metav1.GetOptions{})
	e.Must(err)
	return role, filepath.Join(dir, "kamino-management", "kubeconfig")
}

// TestRights takes a right from the printed account, and the refusal names this right. TestController captures with all of its rights.
func TestRights(t *testing.T) {
	onlyOn(t, pool.AWS)
	t.Parallel()
	e := newEnv(t, "rights")
	role, kubeconfig := e.newAccount()
	e.Environ = append(e.Environ, "KAMINO_MANAGEMENT_KUBECONFIG="+kubeconfig)
	for i, rule := range role.Rules {
		if rule.Resources[0] == "awsmachinetemplates" {
			role.Rules[i].Verbs = []string{"get", "list"}
		}
	}
	role.ResourceVersion = ""
	_, err := e.Kube().RbacV1().Roles(sandboxtest.ClusterNamespace).Update(t.Context(), role, metav1.UpdateOptions{})
	e.Must(err)
	template := e.template()
	e.captureWithTrial(e.Donor).ExpectExit(exitDenied, "PermissionMissing", "create awsmachinetemplates")
	if now := e.template(); now != template {
		t.Errorf("the pool names template %s, and did %s", now, template)
	}
	doctor := e.Start("doctor")
	doctor.ExitCode()
	doctor.ExpectOutput("create awsmachinetemplates", "docs/reference/cluster-api.md#rights")
}
