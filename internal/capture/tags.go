package capture

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// softwareTags are the tags with the donor's software at the time of the copy.
var softwareTags = []string{cloud.TagOS, cloud.TagKernel, cloud.TagKubelet, cloud.TagRuntime, cloud.TagImages, cloud.TagPatchedAt, cloud.TagPatchLevel}

// maxTag is the longest tag value that all clouds accept, in bytes. Source: Azure's limit for tags.
const maxTag = 256

// addSoftwareTags adds the donor's software. The image copies the snapshot's tags, because at the publication the donor
// may be patched again or gone.
func (w *pass) addSoftwareTags(tags map[string]string) {
	known := w.image.snapshot.Tags
	if w.image.snapshot.State == cloud.Absent && w.donor.node != nil {
		known = describeNode(w.donor.node)
	}
	for _, key := range softwareTags {
		if value := known[key]; value != "" {
			tags[key] = value
		}
	}
}

// describeNode returns the tags from a Node.
func describeNode(n *corev1.Node) map[string]string {
	info := n.Status.NodeInfo
	tags := map[string]string{cloud.TagOS: info.OSImage, cloud.TagKernel: info.KernelVersion, cloud.TagKubelet: info.KubeletVersion, cloud.TagRuntime: info.ContainerRuntimeVersion}
	if images := len(n.Status.Images); images > 0 {
		tags[cloud.TagImages] = strconv.Itoa(images)
	}
	if at := patchedAt(n); !at.IsZero() {
		tags[cloud.TagPatchedAt] = at.UTC().Format(time.RFC3339)
	}
	if level := n.Annotations[v1alpha1.PatchLevelAnnotation]; level != "" && len(level) <= maxTag {
		tags[cloud.TagPatchLevel] = level // a cut level would equal no node's
	}
	for key, value := range tags {
		if len(value) > maxTag {
			tags[key] = strings.ToValidUTF8(value[:maxTag], "")
		}
	}
	return tags
}

// patchedAt is the latest patch time in the known annotations; zero without annotations. Policies may use other
// annotations, which are not known here.
func patchedAt(n *corev1.Node) time.Time {
	var last time.Time
	for _, key := range []string{v1alpha1.PatchedAtAnnotation, v1alpha1.KuredRebootNeededAnnotation} {
		if at, err := time.Parse(time.RFC3339, n.Annotations[key]); err == nil && at.After(last) {
			last = at
		}
	}
	return last
}
