package clusterapi

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestQuickstart runs docs/quickstart-cluster-api.md as it is written, from a pool that would roll to the first clone and back. What is
// added to a capture is that ten minutes of a trial's soak would show nothing more, and that others capture beside it.
func TestQuickstart(t *testing.T) {
	on(t, pool.AWS)
	g := ownGround(t, "quick")
	page, err := os.ReadFile("../../../docs/quickstart-cluster-api.md")
	g.must(err)
	var script strings.Builder
	rest := string(page)
	for {
		_, after, found := strings.Cut(rest, "```sh\n")
		if !found {
			break
		}
		block, tail, _ := strings.Cut(after, "```")
		script.WriteString(block)
		rest = tail
	}
	text := strings.NewReplacer(
		"NAMESPACE", namespace, "POOL", g.pool, "NODE", g.nodes[0].Node,
		"capture NODE\n", "capture "+g.nodes[0].Node+" --soak 1s --max-concurrent 100\n", "restore POOL", "restore "+g.pool+" --yes",
	).Replace(script.String())
	g.merge(`{"spec":{"rollout":{"strategy":{"type":"RollingUpdate"}}}}`)
	g.capture(exitRefused, []string{"RollingUpdate"})

	dir := t.TempDir()
	admin, err := os.ReadFile(filepath.Join(sandbox.Dir(), "kubeconfig"))
	g.must(err)
	g.must(os.WriteFile(filepath.Join(dir, "management.kubeconfig"), admin, 0o600))
	command := exec.CommandContext(t.Context(), "sh", "-exc", text)
	command.Env, command.Dir = sandbox.Env(), dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, says := range []string{g.pool, "would be", "builds its next nodes from version ", "Provisioned: Passed", "current"} {
		if !strings.Contains(string(out), says) {
			t.Errorf("the page's commands do not say %q:\n%s", says, out)
		}
	}
	if os.Getenv("KAMINO_SHOW") != "" {
		t.Logf("%s", out)
	}
	g.donorGone()
	g.whole(3)
	if template := g.templateNow(); template != g.pool {
		t.Errorf("the pool names template %s, and not its own", template)
	}
	if policy, err := os.ReadFile(filepath.Join(dir, "policy.json")); err != nil || !strings.Contains(string(policy), "ec2:CreateSnapshot") {
		t.Errorf("the policy: %s, %v", policy, err)
	}
}

// templateNow is the infrastructure template that the pool names.
func (g *ground) templateNow() string {
	g.Helper()
	return sandboxtest.Text(*g.sized(), "spec", "template", "spec", "infrastructureRef", "name")
}
