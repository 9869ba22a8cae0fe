// Package contents describes what an image version contains: packages, container images, and directories with files of
// unknown origin. The package encodes a list for storage, and compares the lists of two versions. It is pure: package
// inventory reads the lists from a disk.
package contents

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Kind is the system that installed a package, in the words of package URLs.
type Kind string

// The kinds of packages.
const (
	Deb Kind = "deb"
	RPM Kind = "rpm"
)

// Contents are the contents of one disk. Equal disks have equal contents.
type Contents struct {
	OS OS `json:"os,omitzero"`
	// Packages are the installed packages, sorted.
	Packages []Package `json:"packages"`
	// Images are the container images in the stores of the container runtimes, sorted.
	Images []Image `json:"images,omitempty"`
	// Unknown are directories with files from no package, image or base system, sorted.
	Unknown []Directory `json:"unknown,omitempty"`
	// UnknownFiles is the number of all such files.
	UnknownFiles int `json:"unknownFiles,omitempty"`
	// Fixes are the CVEs in the changelogs of source packages, newest first. A source without a readable changelog is
	// missing.
	Fixes map[string][]string `json:"fixes,omitempty"`
	// FixesPerSource limits the CVEs of a source: older CVEs are omitted.
	FixesPerSource int `json:"fixesPerSource,omitempty"`
	// Notes name what could not be read, or had no room.
	Notes []string `json:"notes,omitempty"`
}

// OS is the operating system, from os-release(5).
type OS struct {
	ID        string `json:"id,omitempty"`
	VersionID string `json:"versionID,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Package is an installed package.
type Package struct {
	Kind    Kind   `json:"kind"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Arch    string `json:"arch,omitempty"`
	// Source is the source package, and SourceVersion its version; empty if equal to the package. For rpm, Source is the
	// name in SourceRPM.
	Source        string `json:"source,omitempty"`
	SourceVersion string `json:"sourceVersion,omitempty"`
	// SourceRPM is the file name of the source package of rpm.
	SourceRPM string `json:"sourceRPM,omitempty"`
}

// SourceName is the name of the source package.
func (p Package) SourceName() string { return cmp.Or(p.Source, p.Name) }

// Image is a container image.
type Image struct {
	// Name is a reference; empty if the store has only a digest.
	Name string `json:"name,omitempty"`
	// Digest is the digest of the manifest, or the image ID of stores that know no manifest.
	Digest string `json:"digest,omitempty"`
}

// String is the name with the digest.
func (i Image) String() string {
	switch {
	case i.Name == "":
		return i.Digest
	case i.Digest == "":
		return i.Name
	}
	return i.Name + "@" + i.Digest
}

// Directory counts files of unknown origin below a directory.
type Directory struct {
	Dir   string `json:"dir"`
	Files int    `json:"files"`
}

// Limits of a stored list.
const (
	// MaxEncoded is the largest stored text in bytes. An object has 256 KiB for all annotations.
	MaxEncoded = 96 << 10
	// maxDecoded is the largest decoded list in bytes: a small text can decompress into a very large list.
	maxDecoded = 8 << 20
	// MaxNotes is the largest number of notes.
	MaxNotes = 16
)

// fixLimits are the limits of CVEs per source. The encoder takes the first limit with enough room.
var fixLimits = []int{200, 50, 20, 5, 0}

// Sort puts all lists into order, and removes duplicates.
func (c *Contents) Sort() {
	slices.SortFunc(c.Packages, func(a, b Package) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Arch, b.Arch), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	c.Packages = slices.Compact(c.Packages)
	slices.SortFunc(c.Images, func(a, b Image) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Digest, b.Digest)) })
	c.Images = slices.Compact(c.Images)
	slices.SortFunc(c.Unknown, func(a, b Directory) int { return cmp.Compare(a.Dir, b.Dir) })
	slices.Sort(c.Notes)
	c.Notes = slices.Compact(c.Notes)
}

// Encode returns the text for storage, at most MaxEncoded bytes. A list that is too large loses old CVEs first, and then
// the directories of unknown files. An error means that the packages alone are too many.
func (c Contents) Encode() (string, error) {
	c.Notes = slices.Clone(c.Notes[:min(len(c.Notes), MaxNotes)])
	for _, limit := range fixLimits {
		if text, err := c.limited(limit).encode(); err != nil || len(text) <= MaxEncoded {
			return text, err
		}
	}
	c = c.limited(0)
	c.Unknown = nil
	c.Notes = append(c.Notes, "directories of unknown files: no room in the list")
	text, err := c.encode()
	if err == nil && len(text) > MaxEncoded {
		return "", fmt.Errorf("the list of %d packages and %d images has %d bytes, at most %d are kept", len(c.Packages), len(c.Images), len(text), MaxEncoded)
	}
	return text, err
}

// limited returns the contents with at most so many CVEs per source.
func (c Contents) limited(limit int) Contents {
	c.FixesPerSource = limit
	fixes := map[string][]string{}
	for source, cves := range c.Fixes {
		fixes[source] = cves[:min(len(cves), limit)]
	}
	if c.Fixes = fixes; limit == 0 {
		c.Fixes = nil
		c.Notes = append(slices.Clone(c.Notes), "CVEs in changelogs: no room in the list")
	}
	return c
}

// encode is the text of the whole list. The text is compressed, and has only characters of base64.
func (c Contents) encode() (string, error) {
	var b bytes.Buffer
	into := base64.NewEncoder(base64.StdEncoding, &b)
	z, err := gzip.NewWriterLevel(into, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if err := errors.Join(json.NewEncoder(z).Encode(c), z.Close(), into.Close()); err != nil {
		return "", err
	}
	return b.String(), nil
}

// Decode reads a stored text. A text that is too large is an error.
func Decode(text string) (*Contents, error) {
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader([]byte(text))))
	if err != nil {
		return nil, fmt.Errorf("the list is not readable: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxDecoded+1))
	if err != nil {
		return nil, fmt.Errorf("the list is not readable: %w", err)
	}
	if len(plain) > maxDecoded {
		return nil, fmt.Errorf("the list has more than %d bytes", maxDecoded)
	}
	c := &Contents{}
	if err := json.Unmarshal(plain, c); err != nil {
		return nil, fmt.Errorf("the list is not readable: %w", err)
	}
	return c, nil
}
