package policy_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/selection"
)

// TestARebootWithoutPatchesMakesNoImage: all nodes rebooted after the capture, and have the patch level of the version.
func TestARebootWithoutPatchesMakesNoImage(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 3, 0)
	at := s.clock.Now().AddDate(0, 0, -20)
	s.version(id, at, map[string]string{cloud.TagPatchLevel: "sha256:ab"})
	s.cloud.ChangeRecipe(id, string(id)+"/versions/"+imageversion.Of(at))
	level := func(name, value string) {
		s.change(id, name, func(n *corev1.Node) { n.Annotations[v1alpha1.PatchLevelAnnotation] = value })
	}
	for _, name := range []string{"pool1-0", "pool1-1", "pool1-2"} {
		level(name, "sha256:ab")
	}
	s.policy("all", nil)
	s.runPass()
	s.decided("all", "pool1", selection.UpToDate)
	level("pool1-1", "sha256:cd")
	s.runPass()
	if got := s.donors(); len(got) != 1 || got[0] != "pool1-1" {
		t.Errorf("donors = %v", got)
	}
}
