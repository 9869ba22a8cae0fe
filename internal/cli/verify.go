package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/generalize"
	"github.com/kamino-dev/kamino/internal/generalize/scan"
	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// verifyFlags is what a person asks of kamino verify.
type verifyFlags struct {
	profile, profileFile, manifest, identities, output string
	tree                                               string
	all, freeOnly                                      bool
	allow                                              []string
}

func newVerifyCommand(f *Factory) *cobra.Command {
	var v verifyFlags
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
			return classed(v.run(cmd.Context(), f, args[0]))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&v.profile, "profile", "", fmt.Sprintf("whose rules say what stays: one of %v (default: the manifest's, or the one that the tree is for)", generalize.Profiles()))
	flags.StringVar(&v.profileFile, "profile-file", "", "file, or directory of *.yaml, with rules, agents and exemptions of your own")
	flags.StringVar(&v.manifest, "manifest", "", "manifest of the run that generalized the disk (default: the one in the tree)")
	flags.StringVar(&v.identities, "identities", "", "list of the donor's identities, as sha256sum writes it")
	flags.StringSliceVar(&v.allow, "allow", nil, "rules that were allowed to be broken, by name")
	flags.BoolVar(&v.all, "all", false, "search what packages and container images brought, too")
	flags.StringVar(&v.tree, "tree", "", "with an image: the same disk, mounted; keys that came with packages and container images are known again by it")
	flags.BoolVar(&v.freeOnly, "free-only", false, "with an image: report keys and tokens only where blocks are not known to be in use")
	bindOutput(cmd, &v.output, print.Table, print.JSON, print.YAML)
	completeProfiles(cmd)
	return cmd
}

// verified is what the command found out, and from what.
type verified struct {
	Target string `json:"target"`
	// Profile whose rules said what may stay; empty if none was known.
	Profile        v1alpha1.Profile `json:"profile,omitempty"`
	ProfileVersion string           `json:"profileVersion,omitempty"`
	// Identities of the donor that were looked for.
	Identities int  `json:"identities"`
	Clean      bool `json:"clean"`
	*scan.Report
}

// check tells which flags are not for what is verified.
func (v *verifyFlags) check(isTree bool) error {
	switch {
	case isTree && v.freeOnly:
		return usagef("--free-only is for images")
	case isTree && v.tree != "":
		return usagef("--tree is for images")
	case !isTree && v.all:
		return usagef("--all is for trees: of an image everything is read")
	}
	return nil
}

// searchable refuses what is neither a tree nor an image: a pipe would be waited for, and some devices never end.
func searchable(target string, mode fs.FileMode) error {
	switch {
	case mode.IsDir(), mode.IsRegular(), mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0:
		return nil
	}
	return usagef("%s is neither a directory nor an image nor a block device: a pipe or the like cannot be searched, so write it to a file first", generalize.Printable(target))
}

func (v *verifyFlags) run(ctx context.Context, f *Factory, target string) error {
	format, err := print.ParseFormat(v.output, print.Table, print.JSON, print.YAML)
	if err != nil {
		return &ending{ExitUsage, err}
	}
	info, err := os.Stat(target)
	if err != nil {
		return &ending{ExitUsage, err}
	}
	if err := searchable(target, info.Mode()); err != nil {
		return err
	}
	if err := v.check(info.IsDir()); err != nil {
		return err
	}
	manifest, err := v.readManifest(target, info.IsDir())
	if err != nil {
		return &ending{ExitUsage, err}
	}
	o, result, err := v.options(target, info.IsDir(), manifest)
	if err != nil {
		return err
	}
	if v.tree != "" {
		if err := v.knowBrought(ctx, &o); err != nil {
			return err
		}
	}
	if info.IsDir() {
		if result.Report, err = scan.Tree(ctx, target, o); err == nil {
			err = v.lookIntoStores(target, result)
		}
	} else {
		result.Report, err = scan.Image(ctx, target, o)
	}
	if err != nil {
		return err
	}
	result.Clean = result.Count == 0
	if format.Machine() {
		err = print.Value(f.Out, format, result)
	} else {
		err = showVerified(f.Out, result)
	}
	if err == nil && !result.Clean {
		err = &ending{ExitFailed, fmt.Errorf("%s must not be copied: %d findings", generalize.Printable(target), result.Count)}
	}
	return err
}

// lookIntoStores has container stores looked into where they are known to be: of any profile, if none is known.
func (v *verifyFlags) lookIntoStores(target string, result *verified) error {
	name := result.Profile
	if name == "" {
		name = generalize.Profiles()[0]
	}
	profile, err := generalize.LoadWith(name, v.profileFile)
	if err != nil {
		return &ending{ExitUsage, err}
	}
	t, err := tree.Open(target)
	if err != nil {
		return err
	}
	defer t.Close()
	return generalize.LookIntoStores(t, profile, result.Report)
}

// knowBrought adds the keys that came with packages and container images to those that may stay. What the
// manifest says of a key counts first.
func (v *verifyFlags) knowBrought(ctx context.Context, o *scan.Options) error {
	brought, err := scan.Brought(ctx, v.tree, *o)
	if err != nil {
		return fmt.Errorf("--tree: %w", err)
	}
	maps.Copy(brought, o.Known)
	o.Known = brought
	return nil
}

func (v *verifyFlags) readManifest(target string, isTree bool) (*generalize.Manifest, error) {
	if v.manifest != "" {
		content, err := os.ReadFile(v.manifest)
		if err != nil {
			return nil, err
		}
		return generalize.ParseManifest(content)
	}
	if !isTree {
		return nil, nil
	}
	t, err := tree.Open(target)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return generalize.ReadManifest(t)
}

// options joins what the flags, the manifest and the tree itself tell.
func (v *verifyFlags) options(target string, isTree bool, m *generalize.Manifest) (scan.Options, *verified, error) {
	o, result := scan.Options{FreeOnly: v.freeOnly}, &verified{Target: target}
	o.All = v.all
	profile := v1alpha1.Profile(v.profile)
	if m != nil {
		o.Identities, o.Known = m.Identities(), m.Known()
		if profile == "" {
			profile = m.Profile
		}
	}
	if profile == "" && isTree {
		t, err := tree.Open(target)
		if err != nil {
			return o, nil, err
		}
		defer t.Close()
		// Without a profile nothing may stay, so that a doubt is on the safe side.
		profile, _, _ = generalize.Detect(t)
	}
	if profile != "" {
		loaded, err := generalize.LoadWith(profile, v.profileFile)
		if err != nil {
			return o, nil, &ending{ExitUsage, err}
		}
		o.Owner, o.Base = loaded.Owner(v.allow...), loaded.Base()
		result.Profile, result.ProfileVersion = loaded.Name, loaded.Version
	}
	if v.identities != "" {
		list, err := os.Open(v.identities)
		if err != nil {
			return o, nil, &ending{ExitUsage, err}
		}
		defer list.Close()
		values, err := scan.ReadList(list)
		if err != nil {
			return o, nil, &ending{ExitUsage, fmt.Errorf("%s: %w", v.identities, err)}
		}
		o.Identities = append(o.Identities, values...)
	}
	result.Identities = len(o.Identities)
	return o, result, nil
}

func showVerified(w io.Writer, v *verified) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(v.Findings)+len(v.Kept) > 0 {
		fmt.Fprintln(table, "WHERE\tKIND\tWHAT\tRULE\tMAY STAY")
	}
	for _, list := range [][]scan.Finding{v.Findings, v.Kept} {
		for i := range list {
			finding := &list[i]
			rule, kept := finding.Rule, finding.Kept
			if rule == "" {
				rule = "-"
			}
			if kept == "" {
				kept = "no"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", generalize.Printable(finding.Where()), finding.Kind, generalize.Printable(finding.What), rule, generalize.Printable(kept))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(v.Findings)+len(v.Kept) > 0 {
		fmt.Fprintln(w)
	}
	if more := v.Count - len(v.Findings); more > 0 {
		fmt.Fprintf(w, "%d more findings are not listed\n", more)
	}
	looked := "keys and tokens, not for identities: neither a manifest nor a list of them is there"
	if v.Identities > 0 {
		looked = fmt.Sprintf("keys, tokens and %d identities of the donor", v.Identities)
	}
	verdict := "clean"
	if !v.Clean {
		verdict = fmt.Sprintf("%d findings", v.Count)
	}
	_, err := fmt.Fprintf(w, "%s: read %d files, %d MiB, for %s\n", verdict, v.Files, v.Bytes>>20, looked)
	return err
}
