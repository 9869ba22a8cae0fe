package capture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// ImageNotAllowed is the reason of the preflight about an image that nobody has allowed to run on a donor.
const ImageNotAllowed = "ImageNotAllowed"

// podImage is the image of the generalize pod: the settings' own, else the engine's.
func podImage(p *v1alpha1.Prototype, fallback string) string {
	if image := p.Spec.Settings.Generalize.Image; image != "" {
		return image
	}
	return fallback
}

// refuseImage refuses an image that whoever wrote the Prototype, or its policy, has named: it would run as root on
// a node. The engine's own is allowed, and what the engine was told.
func (e *Engine) refuseImage(p *v1alpha1.Prototype) []cloud.Refusal {
	image := podImage(p, e.Image)
	if image == "" {
		return []cloud.Refusal{cloud.Refuse(NoImage, "no image is known for the generalize pod, because this build of Kamino was published nowhere",
			"make one of it (podman build -t REGISTRY/kamino:TAG .), push it where the nodes can pull it or load it onto them, and name it with --image, KAMINO_IMAGE or settings.generalize.image")}
	}
	if image == e.Image || slices.ContainsFunc(e.AllowedImages, func(allowed string) bool { return allows(allowed, image) }) {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(ImageNotAllowed,
		fmt.Sprintf("settings.generalize.image names %s, which would run as root on node %s and is neither Kamino's own (%s) nor among those that Kamino was told to allow", image, p.Spec.Donor.NodeName, e.Image),
		"leave it out, or start Kamino with --allowed-images")}
}

// allows tells whether an entry of the list stands for an image: exactly, as its repository, or, where it ends with
// a slash, as what the repository lies below.
func allows(entry, image string) bool {
	if rest, found := strings.CutPrefix(image, entry); found && entry != "" {
		return rest == "" || strings.HasSuffix(entry, "/") || rest[0] == '@' || rest[0] == ':' && !strings.Contains(rest, "/")
	}
	return false
}
