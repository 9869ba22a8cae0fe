// Package e2e runs one whole story per cloud and kind of donor: a pool, a capture with its trial, and the copy that joins. Each
// story is `kamino-sandbox demo`, which checks what is true of the world at its end. The packages below are the long suite.
package e2e

import (
	"os"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) { os.Exit(sandboxtest.MainOfPrograms(m, &sandbox)) }

// captured are checks of every story.
var captured = []string{
	"ok  the image passed its trial", "ok  the trial's node is gone", "ok  the new node was built from the prototype",
	"ok  it shares no identity with its donor", "ok  no two machines have collided", "ok  the other nodes were left alone",
	"ok  no snapshot, pod or lock is left behind",
}

func TestStories(t *testing.T) {
	for name, story := range map[string]struct {
		flags  []string
		prints string
	}{
		"the donor returns, on Azure":     {[]string{"--cloud", "azure"}, "ok  the donor is back in service, as it was"},
		"the donor returns, on AWS":       {[]string{"--cloud", "aws"}, "ok  the donor is back in service, as it was"},
		"the donor is replaced, on Azure": {[]string{"--cloud", "azure", "--kubeadm"}, ""},
		"the donor is replaced, on AWS":   {[]string{"--cloud", "aws", "--kubeadm"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sandbox.Demo(t, sandbox.Kamino, story.flags...).AssertTrue(append(captured, story.prints)...)
		})
	}
}
