package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/generalize"
	"github.com/kamino-dev/kamino/internal/generalize/host"
	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// generalizeFlags is what a person, or the engine's pod, asks of kamino generalize.
type generalizeFlags struct {
	root, profile, profileFile      string
	rulesDigest, unknownFiles       string
	manifest, output                string
	live, dryRun, list, confirmRoot bool
	look                            bool
	allow                           []string
	prototype, uid, bootID          string
	order, orderUID                 string
	files                           host.OrderFiles
	access                          host.Access
}

func newGeneralizeCommand(f *Factory) *cobra.Command {
	var g generalizeFlags
	cmd := &cobra.Command{
		Use:   "generalize --root DIR",
		Short: "Remove from a disk what must differ between machines",
		Long: `Remove from a directory tree (a mounted copy of a disk, or the root of a host) what must differ between
machines, by the rules of a profile, and look again whether every rule is met. The manifest of what was
found and done is left in the tree as ` + generalize.ManifestPath + `.

With --live it works on the running host that it is started on by a capture: it stops what would write
again, reports the proof on its order, and powers the host off. Do not use --live by hand.

With --look it says whether the running host that it is started on could be generalized, as far as that can be told
while it works, and changes nothing. A capture does that before it takes a node out of service.`,
		Example: `  # What would be removed, and why
  kamino generalize --list --profile static

  # Look at a mounted copy of a disk, then do it
  kamino generalize --root /mnt/disk --dry-run
  kamino generalize --root /mnt/disk

  # The same with rules of your own
  kamino generalize --root /mnt/disk --profile-file our-agents.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := g.run(cmd.Context(), f)
			if g.live || g.look {
				leaveMessage(err)
			}
			return classed(err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&g.root, "root", "", "directory that holds the machine's root")
	flags.StringVar(&g.profile, "profile", "", fmt.Sprintf("which rules: one of %v (default: the one that the disk is for)", generalize.Profiles()))
	flags.StringVar(&g.profileFile, "profile-file", "", "file, or directory of *.yaml, with rules, agents and exemptions of your own")
	flags.StringVar(&g.rulesDigest, "rules-digest", "", "refuse other rules of your own than those with this digest, as sha256:HEX of all files one after the other")
	flags.BoolVar(&g.list, "list", false, "print the rules of the profile and do nothing")
	flags.BoolVar(&g.dryRun, "dry-run", false, "say what would be done, and change nothing")
	flags.StringSliceVar(&g.allow, "allow", nil, "rules that may be broken, by name (those that the list calls allowable)")
	flags.StringVar(&g.unknownFiles, "unknown-files", string(v1alpha1.UnknownFilesAllow), "what to do about files that neither a package nor an image nor the base system brought: Allow or Refuse")
	flags.StringVar(&g.manifest, "manifest", "", "write the manifest to this file as well")
	flags.BoolVar(&g.confirmRoot, "confirm-root", false, "work on / of the machine that this runs on, which loses its identity")
	bindOutput(cmd, &g.output, print.Table, print.JSON, print.YAML)
	completeProfiles(cmd)
	flags.BoolVar(&g.live, "live", false, "the root is that of the running host: stop its services, report, power it off")
	flags.BoolVar(&g.look, "look", false, "the root is that of the running host: say whether it could be generalized, and change nothing")
	flags.StringVar(&g.prototype, "prototype", "", "with --live: the Prototype that the run is for")
	flags.StringVar(&g.uid, "uid", "", "with --live: the UID of the Prototype")
	flags.StringVar(&g.bootID, "boot-id", "", "with --live: the only boot of the host that the run is meant for")
	flags.StringVar(&g.order, "order", "", "with --live: the Order that the run carries out, as NAMESPACE/NAME")
	flags.StringVar(&g.orderUID, "order-uid", "", "with --live: the UID of the Order")
	flags.StringVar(&g.files.Key, "key-file", "", "with --live: file with the key that the report is signed with")
	flags.StringVar(&g.files.PodUID, "pod-uid-file", "", "with --live: file with the UID of the pod")
	flags.StringVar(&g.access.TokenFile, "token-file", "", "with --live: file with the token for the API server")
	flags.StringVar(&g.access.CAFile, "ca-file", "", "with --live: file with the certificates of the API server")
	return cmd
}

// classed gives an error the exit code that it knows itself to have.
func classed(err error) error {
	var knows interface{ ExitCode() int }
	if errors.As(err, &knows) {
		return &ending{knows.ExitCode(), err}
	}
	return err
}

func (g *generalizeFlags) run(ctx context.Context, f *Factory) error {
	format, err := print.ParseFormat(g.output, print.Table, print.JSON, print.YAML)
	if err != nil {
		return &ending{ExitUsage, err}
	}
	if g.list {
		return g.printRules(f, format)
	}
	if err := g.check(); err != nil {
		return err
	}
	if err := g.detect(); err != nil {
		return err
	}
	profile, err := generalize.LoadWith(v1alpha1.Profile(g.profile), g.profileFile)
	if err != nil {
		return &ending{ExitUsage, err}
	}
	if g.rulesDigest != "" && profile.RulesDigest != g.rulesDigest {
		return refusedf("the rules in %s are not those of the order: their digest is %s, and the order was for %s; nothing was changed", g.profileFile, profile.RulesDigest, g.rulesDigest)
	}
	runner := &generalize.Runner{
		Profile: profile, Tool: buildInfo().Version, Allow: g.allow, DryRun: g.dryRun, Now: f.Now,
		UnknownFiles: v1alpha1.UnknownFiles(g.unknownFiles),
		Subject:      generalize.Subject{Prototype: g.prototype, UID: types.UID(g.uid), BootID: g.bootID},
	}
	switch {
	case g.live:
		return g.runLive(ctx, f, runner)
	case g.look:
		return g.runLook(f, runner)
	}
	return g.runTree(ctx, f, runner, format)
}

// printRules prints the rules of the profile, of static if none is named.
func (g *generalizeFlags) printRules(f *Factory, format print.Format) error {
	if g.profile == "" {
		g.profile = string(v1alpha1.ProfileStatic)
	}
	profile, err := generalize.LoadWith(v1alpha1.Profile(g.profile), g.profileFile)
	if err != nil {
		return &ending{ExitUsage, err}
	}
	if format.Machine() {
		return print.Value(f.Out, format, profile)
	}
	return listRules(f.Out, profile)
}

// detect finds out which profile the disk is for, or refuses if it is not the one asked for.
func (g *generalizeFlags) detect() error {
	if g.profile != "" && !slices.Contains(generalize.Profiles(), v1alpha1.Profile(g.profile)) {
		return usagef("unknown profile %q: there are %v", g.profile, generalize.Profiles())
	}
	t, err := g.open()
	if err != nil {
		return err
	}
	defer t.Close()
	if err := generalize.RefuseMounts(t); err != nil {
		return err
	}
	if g.profile != "" {
		return generalize.Agree(t, v1alpha1.Profile(g.profile))
	}
	detected, _, err := generalize.Detect(t)
	g.profile = string(detected)
	return err
}

// check refuses flags that do not fit together, and to take the identity of the machine that this runs on
// by mistake.
func (g *generalizeFlags) check() error {
	if err := g.checkFlags(); err != nil {
		return err
	}
	if _, err := os.Stat(g.root); err != nil {
		return usagef("--root: %w", err)
	}
	if g.live || g.look || g.confirmRoot || g.dryRun {
		return nil
	}
	own, err := g.ownRoot()
	if err != nil {
		return err
	}
	if own {
		return refusedf("%s is the root of the machine that this runs on: give --confirm-root if it is to lose its identity; nothing was changed", g.root)
	}
	return nil
}

// checkFlags refuses flags that do not fit together.
func (g *generalizeFlags) checkFlags() error {
	order := []string{g.prototype, g.uid, g.bootID, g.order, g.orderUID, g.files.Key, g.files.PodUID, g.access.TokenFile, g.access.CAFile}
	switch {
	case g.root == "":
		return usagef("--root must name the directory that holds the machine's root")
	case !knownUnknownFiles(v1alpha1.UnknownFiles(g.unknownFiles)):
		return usagef("--unknown-files must be Allow or Refuse, not %q", g.unknownFiles)
	case g.live && (g.dryRun || g.manifest != "" || g.output != ""):
		return usagef("--live goes with none of --dry-run, --manifest and --output")
	case g.look && (g.live || g.dryRun || g.manifest != "" || g.output != ""):
		return usagef("--look goes with none of --live, --dry-run, --manifest and --output")
	case g.live && slices.Contains(order, ""):
		return usagef("--live needs --prototype, --uid, --boot-id, --order, --order-uid, --key-file, --pod-uid-file, --token-file and --ca-file; captures give them")
	}
	return nil
}

// ownRoot says whether the root is that of the machine that this runs on.
func (g *generalizeFlags) ownRoot() (bool, error) {
	root, err := os.Stat(g.root)
	if err != nil {
		return false, err
	}
	own, err := os.Stat("/")
	return err == nil && os.SameFile(root, own), err
}

// open opens the root: that of a machine that runs with what is mounted in it, any other as the directory that it is.
func (g *generalizeFlags) open() (*tree.Tree, error) {
	own, err := g.ownRoot()
	if err != nil {
		return nil, err
	}
	if own || g.live || g.look {
		return tree.OpenRunning(g.root)
	}
	return tree.Open(g.root)
}

func (g *generalizeFlags) runLive(ctx context.Context, f *Factory, runner *generalize.Runner) error {
	// Once the container runtime is stopped nobody reads what is written, and that must not end the run.
	signal.Ignore(syscall.SIGPIPE)
	g.access.Host, g.access.Port = f.Getenv("KUBERNETES_SERVICE_HOST"), f.Getenv("KUBERNETES_SERVICE_PORT")
	api, err := host.NewAPI(g.access)
	if err != nil {
		return refusedf("%w; nothing was changed", err)
	}
	order, err := host.NewOrder(g.order, types.UID(g.orderUID), g.files)
	if err != nil {
		return refusedf("%w; nothing was changed", err)
	}
	h := &host.Host{Root: g.root, Runner: runner, Order: order, API: api, Log: f.Err, Wait: host.Wait}
	return h.Run(ctx)
}

// runLook says whether the host that works in the root could be generalized.
func (g *generalizeFlags) runLook(f *Factory, runner *generalize.Runner) error {
	if why := runner.Profile.NotLive; why != "" {
		return refusedf("profile %s is not for a running host: %s", runner.Profile.Name, why)
	}
	t, err := g.open()
	if err != nil {
		return err
	}
	defer t.Close()
	if err := runner.Look(t); err != nil {
		return err
	}
	_, err = fmt.Fprintf(f.Out, "nothing is in the way of profile %s/%s; nothing was changed\n", runner.Profile.Name, runner.Profile.Version)
	return err
}

// terminationLog is where the kubelet has each container leave its last words.
const terminationLog = "/dev/termination-log"

// leaveMessage gives the kubelet the sentence of a failure, for what was refused before anything was
// changed: without it, all of the log stands in the pod's status. Not in a pod there is no such file.
func leaveMessage(err error) {
	if err == nil {
		return
	}
	if f, opened := os.OpenFile(terminationLog, os.O_WRONLY|os.O_TRUNC, 0); opened == nil {
		defer f.Close()
		_, _ = f.WriteString(generalize.Printable(err.Error()))
	}
}

func (g *generalizeFlags) runTree(ctx context.Context, f *Factory, runner *generalize.Runner, format print.Format) error {
	t, err := g.open()
	if err != nil {
		return err
	}
	defer t.Close()
	m, failed := runner.Run(ctx, t)
	if m == nil {
		return failed
	}
	if g.manifest != "" {
		content, err := m.Encode()
		if err == nil {
			err = os.WriteFile(g.manifest, content, 0o600)
		}
		failed = errors.Join(failed, err)
	}
	if format.Machine() {
		return errors.Join(failed, print.Value(f.Out, format, m))
	}
	return errors.Join(failed, showManifest(f.Out, m))
}

func listRules(w io.Writer, p *generalize.Profile) error {
	fmt.Fprintf(w, "Profile %s, version %s: %s\n", p.Name, p.Version, p.Summary)
	if p.NotLive != "" {
		fmt.Fprintf(w, "Not for a running host: %s\n", p.NotLive)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tACTION\tPATH\tREASON")
	for _, r := range p.Rules {
		action := string(r.Action)
		if r.Allowable {
			action += " (allowable)"
		}
		reason, _, _ := strings.Cut(r.Reason, ". ")
		for i, path := range r.Paths {
			if i == 0 {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.ID, action, path, reason)
				continue
			}
			fmt.Fprintf(table, "\t\t%s\t\n", path)
		}
	}
	return table.Flush()
}

func showManifest(w io.Writer, m *generalize.Manifest) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tACTION\tFOUND\tCHANGED\tMET\tNOTE")
	for _, o := range m.Outcomes {
		if o.Found == 0 && o.Changed == 0 && o.Met {
			continue
		}
		met, note := "yes", o.Kept
		switch {
		case o.Waived:
			met = "-"
		case !o.Met:
			met, note = "no", o.Why
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%s\n", o.Rule, o.Action, o.Found, o.Changed, met, generalize.Printable(note))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	digest, err := m.Digest()
	if err != nil {
		return err
	}
	if m.Scan != nil {
		fmt.Fprintf(w, "\n%d files searched for secrets and identities: %d found, %d more kept for a reason\n", m.Scan.Files, m.Scan.Count, m.Scan.KeptCount)
	}
	for i := range m.Credentials {
		fmt.Fprintln(w, "It keeps a credential:", m.Credentials[i].String())
	}
	if m.DryRun {
		_, err = fmt.Fprintf(w, "\n%d of %d rules of profile %s/%s are met as it is; nothing was changed\n", m.Met, m.Rules, m.Profile, m.ProfileVersion)
		return err
	}
	_, err = fmt.Fprintf(w, "\n%d of %d rules of profile %s/%s are met; manifest %s\n", m.Met, m.Rules, m.Profile, m.ProfileVersion, digest)
	return err
}
