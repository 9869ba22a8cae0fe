package agent

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	"github.com/kamino-dev/kamino/internal/cli/exit"
	"github.com/kamino-dev/kamino/internal/cli/output"
)

func newVerifyCommand(e Environment) *cobra.Command {
	var (
		search  disk.Search
		format  output.Format
		suggest bool
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
before (sha256sum /etc/machine-id /etc/ssh/ssh_host_* > donor.txt). Lines such as "value 10.0.3.17" add plain values,
which an image must not have in free blocks. Without a manifest or a list, the command finds only keys and tokens. The
output never contains a secret.

With another machine of the pool the command compares files that no package, image or base system installed. A file
with another content on each machine likely holds an identity.

The exit code is 0 if the disk is clean, and 4 if the disk has forbidden findings, or if the run failed.`,
		Example: `  # A mounted copy of a disk, with its own manifest
  kamino-node verify /mnt/disk

  # A raw image with free blocks, and the manifest of the run
  kamino-node verify disk.raw --manifest generalize.json

  # The same, but ignore keys from packages and container images
  kamino-node verify disk.raw --manifest generalize.json --tree /mnt/disk

  # Compare two nodes before a capture, and draft rules for your agents
  kamino-node verify /mnt/node1 --compare /mnt/node2 --suggest-rules`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			search.Target = args[0]
			found, err := search.Run(cmd.Context())
			if err != nil {
				return exit.Classed(err)
			}
			if suggest {
				draft, err := found.Suggest()
				if err == nil {
					_, err = e.Out.Write(draft)
				}
				return err
			}
			if err := printFound(e.Out, format, found); err != nil {
				return err
			}
			if !found.Clean {
				return &exit.Failure{Code: exit.Failed, Err: fmt.Errorf("%s must not be copied: %s", generalize.Printable(found.Target), found.Verdict())}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar((*string)(&search.Profile), "profile", "", fmt.Sprintf("profile of the rules: one of %v (default: from the manifest, or detected from the tree)", v1alpha1.Profiles()))
	flags.StringVar(&search.File, "profile-file", "", "file, or directory of *.yaml, with your own rules, agents and exemptions")
	flags.StringVar(&search.Manifest, "manifest", "", "manifest of the generalize run (default: the manifest in the tree)")
	flags.StringVar(&search.Identities, "identities", "", "list of the donor's identities: lines of sha256sum, and lines with \"value\" and a value")
	flags.StringVar(&search.Compare, "compare", "", "for a tree: another machine of the pool, as a mounted root or as a report of --hashes -o yaml")
	flags.BoolVar(&search.Hashes, "hashes", false, "for a tree: list files of unknown origin with their SHA-256, for --compare")
	flags.BoolVar(&suggest, "suggest-rules", false, "write a draft of your own rules instead of the findings")
	flags.BoolVar(&search.All, "all", false, "also search files from packages and container images")
	flags.StringVar(&search.Mounted, "tree", "", "for an image: mounted copy of the same disk, used to recognize keys from packages and container images")
	flags.BoolVar(&search.FreeOnly, "free-only", false, "for an image: report keys and tokens only outside of blocks that are known to be in use")
	output.Bind(cmd, &format, output.Table, output.JSON, output.YAML)
	completeProfiles(cmd)
	return cmd
}
