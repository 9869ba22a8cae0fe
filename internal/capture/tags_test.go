package capture

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// A version names the donor's software at the time of the copy, even if the donor has changed or is gone at the
// publication.
func TestVersionNamesDonorSoftware(t *testing.T) {
	want := map[string]string{
		cloud.TagOS: "Ubuntu 24.04.1 LTS", cloud.TagKernel: "6.8.0-1021-azure", cloud.TagKubelet: "v1.37.1",
		cloud.TagRuntime: "containerd://2.1.4", cloud.TagPatchedAt: "2026-03-13T04:00:00Z", cloud.TagPatchLevel: "sha256:ab", cloud.TagImages: "2",
	}
	nodes := corev1.SchemeGroupVersion.WithResource("nodes")
	s := newTestEnv(t).decide()
	n := s.tracked("nodes", "", donorName).(*corev1.Node)
	n.Status.NodeInfo.OSImage, n.Status.NodeInfo.KernelVersion, n.Status.NodeInfo.KubeletVersion = want[cloud.TagOS], want[cloud.TagKernel], want[cloud.TagKubelet]
	n.Status.Images = make([]corev1.ContainerImage, 2)
	n.Status.NodeInfo.ContainerRuntimeVersion = want[cloud.TagRuntime]
	n.Annotations[v1alpha1.KuredRebootNeededAnnotation] = "2026-03-13T05:00:00+01:00"
	n.Annotations[v1alpha1.PatchedAtAnnotation] = "yesterday"
	n.Annotations[v1alpha1.PatchLevelAnnotation] = want[cloud.TagPatchLevel]
	s.must(s.objects.Update(nodes, n, ""))
	changed := false
	p := s.play(func(int) {
		if len(s.cloud.World().Snapshots) == 0 || changed {
			return
		}
		n := s.tracked("nodes", "", donorName).(*corev1.Node)
		n.Status.NodeInfo.KernelVersion = "7.0.0-1-azure"
		n.Annotations[v1alpha1.PatchedAtAnnotation] = "2026-03-14T12:30:00Z"
		s.must(s.objects.Update(nodes, n, ""))
		changed = true
	})
	if p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Fatalf("the capture is %s: %+v", p.Status.Phase, p.Status.Failure)
	}
	images := s.cloud.World().Images
	got := map[string]string{}
	for _, key := range softwareTags {
		got[key] = images[len(images)-1].Tags[key]
	}
	if diff := cmp.Diff(want, got); diff != "" || !changed {
		t.Errorf("the version says (-want +got):\n%s", diff)
	}
}

func TestDescribeNode(t *testing.T) {
	if got := describeNode(&corev1.Node{}); got[cloud.TagPatchedAt] != "" {
		t.Errorf("a node that says nothing was patched at %s", got[cloud.TagPatchedAt])
	}
	n := &corev1.Node{}
	n.Status.NodeInfo.OSImage = strings.Repeat("ö", 200)
	if got := describeNode(n)[cloud.TagOS]; len(got) > maxTag || !strings.HasPrefix(n.Status.NodeInfo.OSImage, got) || got == "" {
		t.Errorf("a long name becomes %q", got)
	}
	n.Annotations = map[string]string{
		v1alpha1.PatchedAtAnnotation: "2026-03-13T04:00:00Z", v1alpha1.KuredRebootNeededAnnotation: "2026-03-12T04:00:00Z",
	}
	if got := patchedAt(n); !got.Equal(time.Date(2026, 3, 13, 4, 0, 0, 0, time.UTC)) {
		t.Errorf("patched at %s", got)
	}
}
