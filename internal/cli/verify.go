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
		Short: "Look for secrets and identities in a generalized disk",
		Long: `Look for what must not be in a clone, in a directory tree (a mounted copy of a disk) or in a raw disk image
or block device, free blocks included: private keys, tokens, and the identities of the donor. It does not
trust the run that generalized the disk, and knows the rules only to say which should have seen to a
finding, where container stores are, and what a profile keeps. Of a tree it looks into the databases of container
runtimes, too: for records of containers, in free pages as well, and for images that are damaged.

The donor's identities are known by their hashes, from the manifest that generalize leaves on the disk or
from a list that was made before (sha256sum /etc/machine-id /etc/ssh/ssh_host_* > donor.txt). Without
either only keys and tokens are found. No output holds a secret.

It exits 0 if the disk is clean, and 4 if there are findings that may not stay.`,
		Example: `  # A mounted copy of a disk; the manifest is read from it
  kamino verify /mnt/disk

  # A raw image, free blocks included, with what the run removed and kept
  kamino verify disk.raw --manifest generalize.json

  # The same, without the keys that came with packages and container images
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
				return &ending{ExitFailed, fmt.Errorf("%s must not be copied: %d findings", generalize.Printable(found.Target), found.Count)}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar((*string)(&search.Profile), "profile", "", fmt.Sprintf("whose rules say what stays: one of %v (default: the manifest's, or the one that the tree is for)", v1alpha1.Profiles()))
	flags.StringVar(&search.File, "profile-file", "", "file, or directory of *.yaml, with rules, agents and exemptions of your own")
	flags.StringVar(&search.Manifest, "manifest", "", "manifest of the run that generalized the disk (default: the one in the tree)")
	flags.StringVar(&search.Identities, "identities", "", "list of the donor's identities, as sha256sum writes it")
	flags.StringSliceVar(&search.Allow, "allow", nil, "rules that were allowed to be broken, by name")
	flags.BoolVar(&search.All, "all", false, "search what packages and container images brought, too")
	flags.StringVar(&search.Mounted, "tree", "", "with an image: the same disk, mounted; keys that came with packages and container images are known again by it")
	flags.BoolVar(&search.FreeOnly, "free-only", false, "with an image: report keys and tokens only where blocks are not known to be in use")
	bindOutput(cmd, &format, print.Table, print.JSON, print.YAML)
	completeProfiles(cmd)
	return cmd
}
