package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestCommandsForAPolicy runs the kubectl commands of docs/tasks/automate.md with the rights of the role kamino-operator.
func TestCommandsForAPolicy(t *testing.T) {
	sandbox.Install(t)
	sandbox.Must(t, "kubectl", "create", "clusterrolebinding", "operator", "--clusterrole=kamino-operator", "--user=operator")
	policy := func(field string) string {
		return sandbox.Must(t, "kubectl", "get", "prototypepolicy", "paused", "-o", "jsonpath={"+field+"}")
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte("{apiVersion: kamino.dev/v1alpha1, kind: PrototypePolicy, metadata: {name: paused}, spec: {dryRun: true}}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	sandbox.Must(t, "kubectl", "apply", "-f", file)

	var commands []string
	for _, b := range sandboxtest.Blocks(t, "../../../docs/tasks/automate.md") {
		commands = append(commands, regexp.MustCompile(`(?m)^kubectl .*POLICY.*$`).FindAllString(b.Text, -1)...)
	}
	if len(commands) != 3 {
		t.Fatalf("the page has the commands %q", commands)
	}
	for i, want := range []struct{ field, value string }{
		{".spec.suspend", "true"},
		{".spec.suspend", "false"},
		{`.metadata.annotations.kamino\.dev/retry`, ""}, // a time
	} {
		command := strings.NewReplacer("kubectl ", "kubectl --as operator ", "POLICY", "paused").Replace(commands[i])
		before := policy(want.field)
		run := exec.CommandContext(t.Context(), "sh", "-ec", command)
		run.Env = sandbox.Env()
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		after := policy(want.field)
		if after == before || want.value != "" && after != want.value {
			t.Errorf("%s changes %s from %q to %q, want %q", command, want.field, before, after, want.value)
		}
	}
}
