// Package sbom writes the contents of an image version as a software bill of materials, in the JSON of CycloneDX.
// Equal contents give equal documents: times and identifiers come from the version.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"time"

	packageurl "github.com/package-url/packageurl-go"

	"github.com/kamino-dev/kamino/internal/contents"
)

// Subject is the image version of a document.
type Subject struct {
	contents.Version
	Pool string
	// BuiltAt is the time of the capture; zero if unknown.
	BuiltAt time.Time
	// ID is the ID of the image version in its cloud.
	ID string
	// Tool is the version of Kamino.
	Tool string
}

// Write returns the document of a version with known contents.
func Write(s Subject) ([]byte, error) {
	if s.Contents == nil {
		return nil, fmt.Errorf("the contents of version %s are unknown: %s", s.Version.Version, s.Missing)
	}
	var b bytes.Buffer
	err := writeCycloneDX(&b, s)
	return b.Bytes(), err
}

// name is the name of the document and of its subject.
func (s Subject) name() string { return s.Pool + "-" + s.Version.Version }

// sum identifies the document: the same version with the same contents has the same sum.
func (s Subject) sum() []byte {
	sum := sha256.Sum256([]byte(strings.Join([]string{s.Pool, s.Version.Version, s.ID, s.Digest}, "\x00")))
	return sum[:]
}

// facts are the facts of the donor's kubelet, as names and values.
func (s Subject) facts() [][2]string {
	var facts [][2]string
	for _, fact := range [][2]string{
		{"image", s.ID}, {"prototype", s.Prototype}, {"donor", s.Donor}, {"lineage", s.Lineage}, {"kernel", s.Kernel},
		{"kubelet", s.Kubelet}, {"runtime", s.Runtime},
		{"contents-digest", s.Digest},
	} {
		if fact[1] != "" {
			facts = append(facts, fact)
		}
	}
	for _, note := range s.Contents.Notes {
		facts = append(facts, [2]string{"incomplete", note})
	}
	return facts
}

// packageURL is the package URL of a package, with the distribution and the source package as qualifiers, in the form that
// scanners know. Source: package-url/purl-spec, types deb and rpm; anchore/syft for "upstream".
func packageURL(p contents.Package, os contents.OS) string {
	version, qualifiers := p.Version, map[string]string{"arch": p.Arch}
	if os.ID != "" && os.VersionID != "" {
		qualifiers["distro"] = os.ID + "-" + os.VersionID
	}
	if p.Kind == contents.RPM {
		if epoch, rest, found := strings.Cut(version, ":"); found {
			version, qualifiers["epoch"] = rest, epoch
		}
		qualifiers["upstream"] = p.SourceRPM
	} else if p.Source != "" || p.SourceVersion != "" {
		qualifiers["upstream"] = p.SourceName()
		if p.SourceVersion != "" {
			qualifiers["upstream"] += "@" + p.SourceVersion
		}
	}
	for key, value := range qualifiers {
		if value == "" {
			delete(qualifiers, key)
		}
	}
	return packageurl.NewPackageURL(string(p.Kind), os.ID, p.Name, version, packageurl.QualifiersFromMap(qualifiers), "").ToString()
}

// imageURL is the package URL of a container image; empty for an image without a name or a digest. Source:
// package-url/purl-spec, type oci.
func imageURL(i contents.Image) string {
	if i.Name == "" || i.Digest == "" {
		return ""
	}
	repository, tag := imageName(i)
	qualifiers := map[string]string{"repository_url": repository}
	if tag != "" {
		qualifiers["tag"] = tag
	}
	return packageurl.NewPackageURL(packageurl.TypeOCI, "", strings.ToLower(path.Base(repository)), i.Digest,
		packageurl.QualifiersFromMap(qualifiers), "").ToString()
}

// imageName splits a reference into repository and tag. A colon before the last slash belongs to a port.
func imageName(i contents.Image) (repository, tag string) {
	if at := strings.LastIndexByte(i.Name, ':'); at > strings.LastIndexByte(i.Name, '/') {
		return i.Name[:at], i.Name[at+1:]
	}
	return i.Name, ""
}

// uuid is the sum as a UUID of version 8, which leaves the content to the application. Source: RFC 9562, 5.8.
func uuid(sum []byte) string {
	b := bytes.Clone(sum[:16])
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	text := hex.EncodeToString(b)
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}
