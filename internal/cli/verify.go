package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/generalize"
	"github.com/kamino-dev/kamino/internal/generalize/disk"
)

func newVerifyCommand(f *Factory) *cobra.Command {
	var (
		search disk.Search
		format print.Format
	)
	cmd := &cobra.Command{
		Use:   "verify ROOT|IMAGE",
		Short: "Search a generalized disk for secrets and identities",
		Long: `Search a generalized disk for private keys, tokens, and identities of the donor. The disk is a directory tree (a
mounted copy), a raw disk image, or a block device. In images and devices the command also searches free blocks.

The command is independent of the generalize run. The rules only name the rule that should have removed a finding,
the paths of container stores, and the files that a profile keeps. In a tree, the command also searches the databases
of container runtimes, including free pages, for records of containers and for damaged images.

The command knows the donor's identities as hashes: from the manifest on the disk, or from a list that you created
before (sha256sum /etc/machine-id /etc/ssh/ssh_host_* > donor.txt). Without a manifest or a list, the command finds
only keys and tokens. The output never contains a secret.

The exit code is 0 if the disk is clean, and 4 if the disk has forbidden findings.`,
		Example: `  # A mounted copy of a disk, with its own manifest
  kamino verify /mnt/disk

  # A raw image with free blocks, and the manifest of the run
  kamino verify disk.raw --manifest generalize.json

  # The same, but ignore keys from packages and container images
  kamino verify disk.raw --manifest generalize.json --tree /mnt/disk`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			search.Target = args[0]
			found, err := search.Run(cmd.Context())
			if err != nil {
				return classed(err)
			}
			if err := print.Found(f.Out, format, found); err != nil {
				return err
			}
			if !found.Clean {
				return &failure{ExitFailed, fmt.Errorf("%s must not be copied: %d findings", generalize.Printable(found.Target), found.Count)}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar((*string)(&search.Profile), "profile", "", fmt.Sprintf("profile of the rules: one of %v (default: from the manifest, or detected from the tree)", v1alpha1.Profiles()))
	flags.StringVar(&search.File, "profile-file", "", "file, or directory of *.yaml, with your own rules, agents and exemptions")
	flags.StringVar(&search.Manifest, "manifest", "", "manifest of the generalize run (default: the manifest in the tree)")
	flags.StringVar(&search.Identities, "identities", "", "list of the donor's identities in the format of sha256sum")
	flags.BoolVar(&search.All, "all", false, "also search files from packages and container images")
	flags.StringVar(&search.Mounted, "tree", "", "for an image: mounted copy of the same disk, used to recognize keys from packages and container images")
	flags.BoolVar(&search.FreeOnly, "free-only", false, "for an image: report keys and tokens only outside of blocks that are known to be in use")
	bindOutput(cmd, &format, print.Table, print.JSON, print.YAML)
	completeProfiles(cmd)
	return cmd
}
