// Package build tells one build of Kamino from another: its version, what it was built from, and the container image that
// goes with it.
package build

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
)

// Version of this build: a release's tag, or what git says of anything else. The linker sets it.
var Version string

// Image of this build's generalize pods, by digest or tag, for builds that are published elsewhere than a release of
// Kamino's. The linker sets it.
var Image string

// Repository is where Kamino's container images are published.
const Repository = "ghcr.io/kamino-dev/kamino"

// released is how a release's tag looks, as opposed to a commit after it.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// Info tells one build from another.
type Info struct {
	Version string `json:"version"`
	// Commit that it was built from, and whether files were changed since; empty if the Go tool did not know.
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Image that its generalize pods run unless they are told another one; empty if this build was published nowhere.
	Image string `json:"image,omitempty"`
}

// Read is this build.
func Read() Info {
	b := Info{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Image: image()}
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

// image is the container image of this build: the one that it was built with, else the release's own. What was published
// nowhere has none: another version's might do something else on a node.
func image() string {
	switch {
	case Image != "":
		return Image
	case released.MatchString(Version):
		return Repository + ":" + Version
	}
	return ""
}
