// Package build identifies a build of Kamino: its version, its source, and its container image.
package build

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
)

// Version of this build: a release's tag, or the description of git. The linker sets Version.
var Version string

// Image of the pods on nodes, by digest or tag, for builds outside Kamino's releases. The linker sets Image.
var Image string

// Repositories of a release's images: of the control plane, and of the pods on nodes, which run kamino-node.
const (
	Repository     = "ghcr.io/kamino-dev/kamino"
	NodeRepository = "ghcr.io/kamino-dev/kamino-node"
)

// released matches the tag of a release or a prerelease, but no commit after a release.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$`)

// Info identifies a build.
type Info struct {
	Version string `json:"version"`
	// Commit of the source, and whether files were changed; empty if unknown to the Go tool.
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Image is the default image of the pods on nodes, and ControllerImage of the controller; empty for a build without a published
	// image.
	Image           string `json:"image,omitempty"`
	ControllerImage string `json:"controllerImage,omitempty"`
}

// Read returns the Info of this build.
func Read() Info {
	b := Info{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Image: cmp.Or(Image, published(NodeRepository)),
		ControllerImage: published(Repository)}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

// String is the build in a line.
func (b Info) String() string { return fmt.Sprintf("%s (%s, %s)", b.Version, b.Go, b.Platform) }

// published is the image of the release. An unpublished build has no image: the image of another version may act differently on a
// node.
func published(repository string) string {
	if released.MatchString(Version) {
		return repository + ":" + Version
	}
	return ""
}
