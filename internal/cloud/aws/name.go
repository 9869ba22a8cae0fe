package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Tags of this provider, for finding resources. No other package reads these tags.
const (
	// tagSnapshot is the caller's name of a snapshot.
	tagSnapshot = "kamino-snapshot"
	// tagMachine holds the donor's properties for RegisterImage, as JSON.
	tagMachine = "kamino-machine"
	// tagBilling holds the donor's billing, as JSON.
	tagBilling = "kamino-billing"
	// tagFamily and tagVersion are image family and version of an image.
	tagFamily  = "kamino-family"
	tagVersion = "kamino-version"
	// tagName is the resource's name in consoles.
	tagName = "Name"
	// tagBacks marks a snapshot that belongs to images and is deleted with the last image.
	tagBacks = "kamino-backs-images"
	// tagRate on an image is the initialization rate of root volumes from the image, in MiB/s.
	tagRate = "kamino-initialization-rate"
	// tagTrial, as cloud.TagWorkshop, holds the name of an instance beside a group, and cloud.TagPool its group.
	tagTrial = "kamino-trial-name"
	// tagEnding marks an instance beside a group that Kamino is ending. Without the tag a terminated instance is a lost instance.
	tagEnding = "kamino-trial-ending"
	// tagCopy is the name of a copy of a disk, and tagCopyOn the provider ID of its workshop.
	tagCopy   = "kamino-copy-name"
	tagCopyOn = "kamino-copy-instance"
)

// ownTags are the tags of this provider. All other tags come from callers.
var ownTags = map[string]bool{tagSnapshot: true, tagMachine: true, tagBilling: true, tagFamily: true, tagVersion: true, tagName: true, tagBacks: true,
	tagTrial: true, cloud.TagPool: true, tagEnding: true, tagRate: true, cloud.TagWorkshop: true, tagCopy: true, tagCopyOn: true}

// Limits of AWS. Sources: "Tag your Amazon EC2 resources"; RegisterImage, Name.
const (
	maxTagValue = 256
	maxName     = 128
)

var illegalInName = regexp.MustCompile(`[^A-Za-z0-9()\[\] ./\-'@_]`)

// shorten returns a text of at most the given number of characters: the text, or the beginning with a hash of the text.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most-9] + "-" + digest(text)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// imagePrefix is the beginning of all names of Kamino's images.
const imagePrefix = "kamino/"

// imageName returns the name of a version's image in its region. The unique name prevents two images of a version,
// because RegisterImage has no client token.
func imageName(ref cloud.FamilyVersion) string {
	family := illegalInName.ReplaceAllString(ref.Family.Name, "_")
	if family != ref.Family.Name {
		family += "-" + digest(ref.Family.Name)
	}
	return imagePrefix + shorten(family, maxName-len(imagePrefix)-1-len(ref.Version)) + "/" + ref.Version
}

// imageText returns Kamino's text for a version's image: "eu-central-1/kamino/workers/2026.03.14". AWS assigns the ID at
// registration, so region and name identify the image. Kamino writes foreign images as AWS does: "ami-0123456789abcdef0".
func imageText(ref cloud.FamilyVersion) string { return ref.Family.Place + "/" + imageName(ref) }

// versionOf returns the version of the image family from an image's text; empty for another image.
func versionOf(family cloud.ImageFamily, image string) string {
	at := strings.LastIndexByte(image, '/')
	if at < 0 || imageText(cloud.FamilyVersion{Family: family, Version: image[at+1:]}) != image {
		return ""
	}
	return image[at+1:]
}

// ImageID implements cloud.ImageProvider.
func (p *ImageProvider) ImageID(ref cloud.FamilyVersion) string { return imageText(ref) }

// VersionOf implements cloud.ImageProvider. AWS has no name for the latest image, so latest is always false.
func (p *ImageProvider) VersionOf(family cloud.ImageFamily, image string) (version string, latest bool) {
	return versionOf(family, image), false
}
