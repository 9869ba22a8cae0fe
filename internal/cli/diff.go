package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/contents"
	"github.com/kamino-dev/kamino/internal/contents/sbom"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/pool"
)

func newDiffCommand(f *Factory, o *Options) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "diff POOL VERSION VERSION",
		Short: "Show how the contents of two versions differ",
		Long: `Compare two image versions of the pool: packages of dpkg and rpm, kernel, kubelet, container runtime, container images, and directories with files of
unknown origin. A CVE counts as fixed if only the changelogs of the second version name it.

Each capture keeps the list of the disk's contents with its Prototype, and the tags of the image version have the digest of that list. The command
doesn't use a list with another digest.`,
		Example: `  kamino diff pool1 2026.02.15 2026.03.01
  kamino diff pool1 2026.02.15 2026.03.01 -o json | jq -r '.fixed[].cve'`,
		Args: cobra.ExactArgs(3), ValidArgsFunction: completePoolVersions(f, o, 2),
		RunE: inLook(f, o, func(ctx context.Context, s *session, args []string) error {
			found, h, err := s.contentsOf(ctx, args[0], args[1], args[2])
			if err != nil {
				return err
			}
			return print.Diff(s.Out, format, contents.Compare(h.Pool, found[0], found[1]))
		}),
	}
	output.Bind(cmd, &format, output.Table, output.Wide, output.JSON, output.YAML)
	return cmd
}

func newSBOMCommand(f *Factory, o *Options) *cobra.Command {
	return &cobra.Command{
		Use:   "sbom POOL VERSION",
		Short: "Write the contents of a version as a software bill of materials",
		Long: `Write the packages and container images of an image version for scanners such as grype and osv-scanner. The document is JSON in the form of CycloneDX
1.6, and equal versions give equal documents.

The packages are those of the donor's disk at the capture. Files from no package, and the content of container images, are not in the document.`,
		Example: `  kamino sbom pool1 2026.03.01 > sbom.json
  kamino sbom pool1 2026.03.01 | grype`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: completePoolVersions(f, o, 1),
		RunE: inLook(f, o, func(ctx context.Context, s *session, args []string) error {
			found, h, err := s.contentsOf(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			v := found[0]
			if v.Contents == nil {
				return refusedf("the contents of version %s are unknown: %s", v.Version, v.Missing)
			}
			image := h.Find(v.Version)
			text, err := sbom.Write(sbom.Subject{Version: v, Pool: h.Pool, BuiltAt: image.BuiltAt, ID: image.ID, Tool: build.Read().Version})
			if err != nil {
				return err
			}
			return output.Value(s.Out, output.JSON, json.RawMessage(text))
		}),
	}
}

// contentsOf reads the contents of versions of a pool.
func (s *session) contentsOf(ctx context.Context, name string, versions ...string) ([]contents.Version, history.History, error) {
	p, h, err := s.lookBack(ctx, name, 0)
	if err != nil {
		return nil, h, err
	}
	var all []contents.Version
	for _, version := range versions {
		v, refusals := h.Named(version)
		if refusals != nil {
			return nil, h, refusal("cannot read the contents of version "+version, refusals)
		}
		all = append(all, pool.Contents(v, p.Prototypes))
	}
	return all, h, nil
}
