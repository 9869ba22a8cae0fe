package cli

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/print"
)

// Version of this build: a release's tag, or what git says of anything else. The linker sets it.
var Version string

// imageRepository is where Kamino's container images are published.
const imageRepository = "ghcr.io/kamino-dev/kamino"

// released is how a release's tag looks, as opposed to a commit after it.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// build tells one build from another.
type build struct {
	Version string `json:"version"`
	// Commit that it was built from, and whether files were changed since; empty if the Go tool did not know.
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Image that its generalize pods run unless they are told another one.
	Image string `json:"image"`
}

func buildInfo() build {
	b := build{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Image: releaseImage()}
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

// releaseImage is the container image of this build: the release's own, else the latest that was published.
func releaseImage() string {
	if released.MatchString(Version) {
		return imageRepository + ":" + Version
	}
	return imageRepository + ":latest"
}

func newVersionCommand(f *Factory) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this build",
		Example: `  kamino version
  kamino version -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			format, err := print.ParseFormat(output, print.JSON, print.YAML)
			if err != nil {
				return &ending{ExitUsage, err}
			}
			b := buildInfo()
			if format != print.Text {
				return print.Value(f.Out, format, b)
			}
			_, err = fmt.Fprintf(f.Out, "kamino %s (%s, %s)\n", b.Version, b.Go, b.Platform)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return cmd
}
