package rebuild

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"
)

// TestEventsOfARebuild: a rebuild has two events, even if another client writes to the Node during the record of the
// request.
func TestEventsOfARebuild(t *testing.T) {
	for _, conflicts := range []int{0, 1, 2} {
		s := newTestEnv(t, 1)
		left := conflicts
		s.kube.PrependReactor("patch", "nodes", func(a kubetesting.Action) (bool, runtime.Object, error) {
			if left > 0 && strings.Contains(string(a.(kubetesting.PatchAction).GetPatch()), "askedAt") {
				left--
				return true, nil, apierrors.NewConflict(corev1.Resource("nodes"), "bad-0", nil)
			}
			return false, nil, nil
		})
		var reasons []string
		r := s.replacement()
		r.Recorder = recorder(func(n *corev1.Node, _, reason string) { reasons = append(reasons, n.Name+" "+reason) })
		s.run(r)
		if want := []string{"bad-0 Rebuilding", "bad-0 Rebuilt"}; !slices.Equal(reasons, want) || conflicts > 0 && left == conflicts {
			t.Errorf("%d conflicts, of which %d are left: events %q, want %q", conflicts, left, reasons, want)
		}
	}
}
