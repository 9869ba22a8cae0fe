// Package e2e runs one whole story per cloud and kind of donor: a pool, a capture with its trial, and a joined
// copy. Each story is `kamino-sandbox demo`, which checks the final state itself. The packages below are the long
// suite.
package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) { os.Exit(sandboxtest.MainWithPrograms(m, &sandbox)) }

// Checks at the end of the stories. A demo fails if one of its own checks is false; these checks must be among
// them.
var (
	checks = []string{
		"ok  the new node is Ready and was built from the prototype", "ok  no two machines have collided",
		"ok  the other nodes are unchanged", "ok  no snapshot, pod or lock is left",
	}
	checksOfReturned = []string{"ok  the donor is back in service, unchanged", "ok  the new node and its donor have different identities"}
	checksOfCopied   = []string{"ok  the donor served all the time", "ok  the new node and its donor have different identities"}
	checksOfTrial    = []string{"ok  the trial of the image passed", "ok  the trial node is gone"}
)

// asEngine captures as the account of the controller, with the rights and the admission policies of `kamino manifests`.
const asEngine = `#!/bin/sh
case $1 in
capture) exec $REAL_KAMINO "$@" --as system:serviceaccount:kamino-system:kamino-engine ;;
*) exec $REAL_KAMINO "$@" ;;
esac
`

func TestStories(t *testing.T) {
	for name, story := range map[string]struct {
		flags  []string
		checks []string
	}{
		"azure-returned": {[]string{"--cloud", "azure"}, slices.Concat(checksOfReturned, checksOfTrial)},
		"aws-copied":     {[]string{"--cloud", "aws"}, slices.Concat(checksOfCopied, checksOfTrial)},
		"azure-kubeadm":  {[]string{"--cloud", "azure", "--kubeadm"}, slices.Concat(checksOfCopied, checksOfTrial)},
		"aws-kubeadm":    {[]string{"--cloud", "aws", "--kubeadm"}, slices.Concat(checksOfCopied, checksOfTrial)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sandbox.DemoWith(t, asEngine, story.flags...).AssertPassed(slices.Concat(checks, story.checks)...)
		})
	}
}

// TestSizes limits the sizes of programs in MB, a little above the present sizes, so that a large dependency is a
// decision.
func TestSizes(t *testing.T) {
	kamino, sandbox := os.Getenv("KAMINO_BIN"), os.Getenv("KAMINO_SANDBOX_BIN")
	if kamino == "" || sandbox == "" {
		t.Skip("KAMINO_BIN or KAMINO_SANDBOX_BIN is not set: make builds the programs without symbols, and sets them")
	}
	for path, limit := range map[string]int64{kamino: 62, filepath.Join(filepath.Dir(kamino), "kamino-node"): 20, sandbox: 205} {
		file, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if file.Size() > limit*1_000_000 {
			t.Errorf("%s: %d bytes, the limit is %d MB", path, file.Size(), limit)
		}
	}
}
