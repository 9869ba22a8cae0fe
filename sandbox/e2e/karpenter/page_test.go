package karpenter

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// awsScript takes the place of the aws command. It knows the calls of the page only, and refuses a policy with a word to replace.
const awsScript = `#!/bin/sh
set -eu
case "$1 $2" in
"sts get-caller-identity") echo 123456789012 ;;
"iam create-policy")
	file=${6#file://}
	grep -q '"ec2:CreateSnapshot"' "$file"
	! grep -E 'ACCOUNT|ROLE-OF' "$file" ;;
"iam attach-role-policy") ;;
*) echo "unknown call: aws $*" >&2; exit 1 ;;
esac
`

// TestPage runs the commands of the page for new users, in their order. The soak of ten minutes is shorter. Running NodeClaims stay.
func TestPage(t *testing.T) {
	e := newEnv(t, "page")
	e.setBudgets("null") // as a NodePool begins
	dir := t.TempDir()
	e.Must(os.WriteFile(filepath.Join(dir, "aws"), []byte(awsScript), 0o755))
	path := strings.Join([]string{dir, sandbox.Programs, os.Getenv("PATH")}, string(os.PathListSeparator))
	sandbox.RunPage(t, "../../../docs/get-started/karpenter.md", dir, []string{"PATH=" + path},
		"registry.example.com/kamino-node:mine", sandboxdir.NodeImage+":sandbox",
		"kamino doctor", "kamino doctor "+e.Pool, // other tests leave pools
		`kamino capture "$NODE"`, `kamino capture "$NODE" -f `+sandboxtest.SettingsFile(t, "trial: {soak: 1s}"),
		"my-node-role", "node-role", "my-nodepool", e.Pool, "my-node", e.Donor, "my-class", e.Pool, "my-deployment", e.Pool)
	e.assertClaims(1)
	e.assertNothingBeside()
}
