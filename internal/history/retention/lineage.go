package retention

import (
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// Descended returns the versions that descend from a quarantined version, each with its nearest such ancestor: the disk of a node of
// the ancestor is in all of them. A frozen version is not used until a person clears it (TagCleared) or quarantines it. A version
// also passes its clearance on to the versions that descend from it.
func Descended(images []cloud.Image) map[string]string {
	frozen := map[string]string{}
	for _, image := range images {
		if image.Tags[cloud.TagQuarantined] != "" {
			continue
		}
		if by := frozenBy(image, images); by != "" {
			frozen[image.Version] = by
		}
	}
	return frozen
}

// frozenBy returns the nearest quarantined ancestor without clearance; empty if there is none.
func frozenBy(image cloud.Image, images []cloud.Image) string {
	var cleared []string
	for range images { // tags that form a circle end
		cleared = append(cleared, strings.Fields(image.Tags[cloud.TagCleared])...)
		parent := image.Tags[cloud.TagLineage]
		at := slices.IndexFunc(images, func(i cloud.Image) bool { return parent != "" && imageversion.Compare(i.Version, parent) == 0 })
		if at < 0 {
			return ""
		}
		image = images[at]
		if image.Tags[cloud.TagQuarantined] != "" && !slices.Contains(cleared, image.Version) {
			return image.Version
		}
	}
	return ""
}
