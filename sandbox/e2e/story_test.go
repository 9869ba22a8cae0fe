// Package e2e runs one whole story per cloud and kind of donor: a pool, a capture with its trial, and the copy that joins. Each
// story is `kamino-sandbox demo`, which checks what is true of the world at its end. The packages below are the long suite.
package e2e

import (
	"os"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) { os.Exit(sandboxtest.MainOfPrograms(m, &sandbox)) }

// Checks that the stories name at their end. A demo fails where a check of its own is not true; these must be among its checks.
var (
	checks = []string{
		"ok  the new node was built from the prototype, and is Ready", "ok  no two machines have collided",
		"ok  the other nodes were left alone", "ok  no snapshot, pod or lock is left behind",
	}
	checksOfReturned = []string{"ok  the donor is back in service, as it was", "ok  it shares no identity with its donor"}
	checksOfReplaced = []string{"ok  the donor is gone, with its instance, its disk and its Node", "ok  it shares no identity with the donor"}
	checksOfTrial    = []string{"ok  the image passed its trial", "ok  the trial's node is gone"}
)

func TestStories(t *testing.T) {
	for name, story := range map[string]struct {
		flags  []string
		checks []string
	}{
		"azure-returned": {[]string{"--cloud", "azure"}, slices.Concat(checksOfReturned, checksOfTrial)},
		"aws-returned":   {[]string{"--cloud", "aws"}, slices.Concat(checksOfReturned, checksOfTrial)},
		"azure-replaced": {[]string{"--cloud", "azure", "--kubeadm"}, checksOfReplaced}, // its trial would need the customData
		"aws-replaced":   {[]string{"--cloud", "aws", "--kubeadm"}, slices.Concat(checksOfReplaced, checksOfTrial)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sandbox.Demo(t, sandbox.Kamino, story.flags...).AssertTrue(slices.Concat(checks, story.checks)...)
		})
	}
}
