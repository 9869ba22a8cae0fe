package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Tags of this provider's own, by which its resources are found again. Nobody else sees them.
const (
	// tagSnapshot is the name that a snapshot was asked for by.
	tagSnapshot = "kamino-snapshot"
	// tagMachine is what the donor was like, as far as an image of its disk must say it.
	tagMachine = "kamino-machine"
	// tagLine and tagVersion are what an image is of.
	tagLine    = "kamino-line"
	tagVersion = "kamino-version"
	// tagName is what consoles show as a resource's name.
	tagName = "Name"
	// tagBacks tells of a snapshot that it backs images, and goes with the last of them.
	tagBacks = "kamino-backs-images"
	// tagRate on an image is the initialization rate that root volumes made of it get, in MiB/s.
	tagRate = "kamino-initialization-rate"
)

// ownTags are those that no caller has given.
var ownTags = map[string]bool{tagSnapshot: true, tagMachine: true, tagLine: true, tagVersion: true, tagName: true, tagBacks: true, tagTrial: true, tagPool: true, tagEnding: true, tagRate: true}

// Limits of AWS's: a tag's value has 256 characters at most, and an image's name 3 to 128 of these.
// Source: "Tag your Amazon EC2 resources"; RegisterImage, Name.
const (
	maxTagValue = 256
	maxName     = 128
)

var illegalInName = regexp.MustCompile(`[^A-Za-z0-9()\[\] ./\-'@_]`)

// short is a text of at most so many characters: itself, or its beginning with a hash of the whole.
func short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most-9] + "-" + digest(text)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// imagePrefix opens the name of each image of ours.
const imagePrefix = "kamino/"

// imageName is what an image of the line is called in its region. The name is the lock that two images of one version can't both
// have, because registering takes no client token.
func imageName(ref cloud.FamilyVersion) string {
	line := illegalInName.ReplaceAllString(ref.Line.Name, "_")
	if line != ref.Line.Name {
		line += "-" + digest(ref.Line.Name)
	}
	return imagePrefix + short(line, maxName-len(imagePrefix)-1-len(ref.Version)) + "/" + ref.Version
}

// imageText is how a recipe, as Kamino writes it, names an image of ours. AWS gives an image its ID when it is registered, so that it is
// told by its region and name: "eu-central-1/kamino/workers/2026.03.14". Any other is written as AWS does, "ami-0123456789abcdef0".
func imageText(ref cloud.FamilyVersion) string { return ref.Line.Place + "/" + imageName(ref) }

// versionOf reads which version of the line an image is; empty if it is none.
func versionOf(line cloud.ImageFamily, image string) string {
	at := strings.LastIndexByte(image, '/')
	if at < 0 || imageText(cloud.FamilyVersion{Line: line, Version: image[at+1:]}) != image {
		return ""
	}
	return image[at+1:]
}

// ImageID implements cloud.ImageProvider.
func (p *ImageProvider) ImageID(ref cloud.FamilyVersion) string { return imageText(ref) }

// VersionOf implements cloud.ImageProvider. Nothing names "the latest" image.
func (p *ImageProvider) VersionOf(line cloud.ImageFamily, image string) (version string, latest bool) {
	return versionOf(line, image), false
}
