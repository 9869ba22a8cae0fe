package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cli/limit"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/drive"
	"github.com/kamino-dev/kamino/internal/history/estimate"
	"github.com/kamino-dev/kamino/internal/recipe"
)

const captureHelp = `Capture the OS disk of a node as a golden image. New nodes of the pool use the image.

The command creates a Prototype, the record of the capture. The command follows the Prototype until the pool's
recipe points at the new version, or the capture has failed. If a controller holds Kamino's Lease, the controller
does the work. If not, this command takes the Lease and does the work with the same engine.

Interrupting the command loses nothing: run the same command again, or let a controller continue. "kamino cancel"
stops the capture and returns the node to service. A donor that cannot rejoin the cluster is removed instead.

Exit codes: 0 done; 1 unexpected; 2 wrong usage; 3 refused, nothing was changed; 4 the capture failed and the
node is back in service; 5 a credential or a permission; 6 the API server or the cloud is unreachable;
130 interrupted, or --timeout is over.`

const captureExample = `  # Show the plan and all obstacles
  kamino capture worker-3 --dry-run

  # Capture the node and watch
  kamino capture worker-3

  # In a script: return at once, the controller does the work
  kamino capture worker-3 --wait=false -o name

  # First capture of a pool: keep the bootstrap script
  kamino capture worker-3 --custom-data cloud-init.yaml

  # Grow the pool by two new nodes afterwards, and keep five versions
  kamino capture worker-3 --new-nodes 2 --keep 5`

// captureFlags are the flags of one capture.
type captureFlags struct {
	version string
	format  print.Format
	timeout time.Duration

	wait, dryRun, yes bool
	// newNodesTimeout limits the wait for new nodes.
	newNodesTimeout time.Duration
	// customDataFrom names the Secret with a copy of the pool's customData, as NAME or NAME/KEY. customDataFile is the file
	// for a new copy, with the content customData.
	customDataFrom, customDataFile string
	customData                     []byte

	gracePeriod, soak    time.Duration
	replicas, volumeRate int32

	maxUnavailable string
	growFirst      bool
	settings       v1alpha1.Settings
}

func (c *captureFlags) bind(flags *pflag.FlagSet) {
	s := &c.settings
	flags.StringVar(&c.version, "version", "", "version name: a day as YYYY.MM.DD; add two digits for another version of the day, as YYYY.MM.DD02 (default: today in UTC)")
	flags.StringVar((*string)(&s.Donor.Afterwards), "afterwards", "", "what happens to the donor after the copy: Return or Remove (default: by the profile)")
	flags.BoolVar(&c.growFirst, "grow-first", true, "surge: if the donor will be removed, first add a node and wait until the node is Ready")
	flags.DurationVar(&c.gracePeriod, "grace-period", 0, "termination grace period for every pod (default: the pod's own)")
	flags.DurationVar(&s.Drain.Timeout.Duration, "drain-timeout", 15*time.Minute, "the capture fails if the drain takes longer")
	flags.BoolVar(&s.Drain.Force, "force", false, "also evict pods without a controller; after --drain-timeout, delete remaining pods despite their disruption budgets")
	flags.BoolVar(&s.Drain.Disrupt, "disrupt", false, "capture the node and evict pods despite the do-not-disrupt annotations of Karpenter and the cluster autoscaler")
	flags.StringVar(&c.maxUnavailable, "max-unavailable", v1alpha1.DefaultMaxUnavailable, "how many nodes of the pool may be not Ready or cordoned, donor included: a number or a percentage")
	flags.DurationVar(&s.OutOfService.Deadline.Duration, "deadline", 30*time.Minute, "longest time that the donor may be out of service without a snapshot")
	flags.DurationVar(&s.OutOfService.ReadyTimeout.Duration, "ready-timeout", 15*time.Minute, "how long after --deadline a restarted donor may take to become Ready; for a removed donor: how long its replacement may take")
	flags.StringVar((*string)(&s.Generalize.Profile), "profile", "", "how nodes get their credentials: static, eks or bootstrap (default: detected from the way the node joined)")
	flags.StringVar((*string)(&s.Generalize.UnknownFiles), "unknown-files", "", "action for files that no package, no image and no base system installed: Allow or Refuse (default Allow)")
	flags.StringVar(&s.Generalize.Rules, "rules", "", "ConfigMap with your own rules, agents and exemptions, in the namespace of the generalize pods")
	flags.StringVar(&s.Generalize.Image, "image", "", "image of the pod that generalizes the disk (default: Kamino's own)")
	flags.Int32Var(&c.replicas, "replicas", 0, "on Azure: replicas of the image version in the pool's region (default: by the pool's maximum size)")
	flags.Int32Var(&c.volumeRate, "volume-initialization-rate", 0, "on AWS: rate in MiB/s at which EBS loads the root volumes of new nodes from the snapshot (default: the launch template's)")
	flags.Int32Var(&s.Keep, "keep", 3, "how many versions of the pool to keep, at least 2")
	flags.Int32Var(&s.Recipe.NewNodes, "new-nodes", 0, "how many nodes to add to the pool afterwards")
	flags.DurationVar(&c.newNodesTimeout, "new-nodes-timeout", 20*time.Minute, "how long the nodes of --new-nodes may take to become Ready; exit code 4 after that")
	flags.StringVar((*string)(&s.Trial.Mode), "trial", "", "where a trial node boots from the new version before the pool uses the version: Apart or Off (default: Apart)")
	flags.DurationVar(&c.soak, "soak", v1alpha1.DefaultSoak, "how long the trial node must stay Ready")
	flags.DurationVar(&s.Trial.Timeout.Duration, "trial-timeout", v1alpha1.DefaultTrialTimeout, "how long the trial may take, including inconclusive attempts")
	flags.StringSliceVar(&s.Trial.IgnoreDaemonSets, "trial-ignore-daemonset", nil, "DaemonSet as NAMESPACE/NAME that need not be Ready on the trial node; repeatable")
	flags.StringVar(&s.Trial.Job, "trial-job", "", "ConfigMap in the namespace of the generalize pods; the Job in its key job.yaml must succeed on the trial node")
	flags.StringVar((*string)(&s.Promotion.Mode), "promotion", string(v1alpha1.PromotionAutomatic), "Automatic, or Manual to wait for kamino promote")
	flags.DurationVar(&s.Promotion.Timeout.Duration, "promotion-timeout", v1alpha1.DefaultPromotionTimeout, "how long a version waits for kamino promote")
	flags.BoolVar(&c.wait, "wait", true, "wait until the capture has ended")
	flags.BoolVar(&c.dryRun, "dry-run", false, "print the plan and all obstacles, and change nothing")
	flags.StringVar(&c.customDataFile, "custom-data", "", "`file` with the original customData of the pool, or - for standard input; Kamino keeps a copy for kamino restore")
	flags.StringVar(&c.customDataFrom, "custom-data-from", "", "Secret in Kamino's namespace as NAME or NAME/KEY with the original customData; Kamino keeps a copy for kamino restore (default key: customData)")
	flags.BoolVarP(&c.yes, "yes", "y", false, "skip the confirmation that a terminal asks for before a pool's first capture and before a donor is removed")
	flags.DurationVar(&c.timeout, "timeout", 0, "stop after this time; a capture that has begun continues (default: never)")
}

// complete reads the flags whose zero value differs from an absent flag.
func (c *captureFlags) complete(flags *pflag.FlagSet, now time.Time) error {
	if flags.Changed("grace-period") {
		c.settings.Drain.GracePeriod = &metav1.Duration{Duration: c.gracePeriod}
	}
	if flags.Changed("grow-first") {
		c.settings.Donor.GrowFirst = &c.growFirst
	}
	if flags.Changed("replicas") {
		c.settings.Azure = &v1alpha1.AzureSettings{Replicas: &c.replicas}
	}
	if flags.Changed("volume-initialization-rate") {
		c.settings.AWS = &v1alpha1.AWSSettings{VolumeInitializationRate: &c.volumeRate}
	}
	c.settings.Trial.Soak = &metav1.Duration{Duration: c.soak}
	if c.customDataFrom != "" && c.customDataFile != "" {
		return usagef("use only one of --custom-data and --custom-data-from")
	}
	if c.customDataFrom != "" {
		name, key, _ := strings.Cut(c.customDataFrom, "/")
		c.settings.Recipe.CustomDataFrom = &v1alpha1.SecretKey{Name: name, Key: key}
	}
	most := intstr.Parse(c.maxUnavailable)
	c.settings.OutOfService.MaxUnavailable = &most
	if err := cmp.Or(limit.Settings(c.settings), limit.Version(c.version, now)); err != nil {
		return &failure{ExitUsage, err}
	}
	return nil
}

func newCaptureCommand(f *Factory, o *Options) *cobra.Command {
	var flags captureFlags
	cmd := &cobra.Command{
		Use:               "capture NODE",
		Short:             "Capture a node as the golden image for new nodes of its pool",
		Long:              captureHelp,
		Example:           captureExample,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodes(f, o),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.complete(cmd.Flags(), f.Now()); err != nil {
				return err
			}
			if o.MaxConcurrent < 1 {
				return usagef("--max-concurrent must be at least 1, not %d", o.MaxConcurrent)
			}
			var err error
			if flags.customData, err = recipe.ReadCustomData(f.In, flags.customDataFile); err != nil {
				return &failure{ExitUsage, err}
			}
			if image := flags.settings.Generalize.Image; image != "" {
				o.AllowedImages = append(o.AllowedImages, image) // the user of this command decides about its image
			}
			if f.LimitRuntime != nil {
				f.LimitRuntime()
			}
			o.CustomData = flags.customData
			s, err := open(cmd.Context(), f, o)
			if err != nil {
				return err
			}
			node := strings.TrimPrefix(strings.TrimPrefix(args[0], "node/"), "nodes/")
			return (&capturing{session: s, flags: &flags,
				beginning: &drive.CaptureRequest{Cluster: s.cluster, Cloud: s.provider, Now: s.Now, Node: node, Version: flags.version, Settings: flags.settings},
				keeper:    &recipe.Keeper{Secrets: s.secrets(), Cloud: s.provider, CustomData: flags.customData, Say: s.note},
			}).run(cmd.Context())
		},
	}
	flags.bind(cmd.Flags())
	bindOutput(cmd, &flags.format, print.Table, print.Wide, print.JSON, print.YAML, print.Name)
	completeProfiles(cmd)
	_ = cmd.MarkFlagFilename("custom-data")
	cmd.Flags().IntVar(&o.MaxConcurrent, "max-concurrent", 1,
		"how many nodes of the cluster may be out of service at once, at most one per pool, if this command does the work")
	return cmd
}

// capturing is one run of `kamino capture`.
type capturing struct {
	*session
	beginning *drive.CaptureRequest
	keeper    *recipe.Keeper
	flags     *captureFlags
}

// run captures within --timeout, which does not limit the wait for new nodes.
func (c *capturing) run(ctx context.Context) error {
	within, cancel := limited(ctx, c.flags.timeout)
	defer cancel()
	d, err := c.decide(within)
	if err != nil || d.Prototype == nil {
		return orCutShort(within, err, "No capture is followed yet: run the same command again")
	}
	if err := c.follow(within, d.Prototype, c.flags.format); err != nil || d.Prototype.Spec.Settings.Recipe.NewNodes == 0 {
		return err
	}
	return c.awaitGrowth(ctx, d.Prototype.Name, c.flags.newNodesTimeout)
}

// decide creates the Prototype. Without a Prototype in the result, there is nothing to follow.
func (c *capturing) decide(ctx context.Context) (none drive.Decision, err error) {
	d, err := c.beginning.Decide(ctx)
	if err != nil {
		return none, err
	}
	if d.Skipped != "" {
		c.note("Version %s already exists without a successful capture: this capture creates version %s.", d.Skipped, d.Prototype.Spec.Version)
	}
	if c.flags.dryRun {
		return none, c.dryRun(ctx, d)
	}
	holder, err := drive.LeaseHolder(ctx, c.cluster, c.options.Namespace, c.Now())
	if err != nil {
		return none, err
	}
	if !d.Existing {
		err = c.begin(ctx, &d, holder)
	} else {
		err = c.keeper.Same(ctx, d.Prototype)
	}
	if err != nil {
		return none, err
	}
	if !c.flags.wait {
		return none, c.leave(d, holder)
	}
	if d.Existing {
		c.note("A capture of node %s is already running: following Prototype %s.", c.beginning.Node, d.Prototype.Name)
	}
	return d, nil
}

// begin checks for refusals, and creates the Prototype.
func (c *capturing) begin(ctx context.Context, d *drive.Decision, h drive.Holder) error {
	if unknown := d.Unknown(); len(unknown) > 0 {
		chosen := v1alpha1.Profile(c.chosen(capital(d.Joins.Why)+".\nName the profile: "+bootstrapkind.Choice+".", limit.Profiles()...))
		if chosen == "" {
			return refusal(fmt.Sprintf("cannot capture node %s", c.beginning.Node), unknown)
		}
		c.beginning.Take(d, chosen)
	}
	if err := c.check(ctx, d.Prototype, h); err != nil {
		return err
	}
	kept, refusals, err := c.keeper.CopyFor(ctx, d.Prototype.Spec, h.Role == drive.RoleController)
	if err != nil {
		return err
	}
	if len(refusals) > 0 {
		return refusal(fmt.Sprintf("cannot capture node %s", c.beginning.Node), refusals)
	}
	if err := c.confirm(ctx, d.Prototype, kept != nil); err != nil {
		return err
	}
	if h.Role != drive.RoleController && c.flags.wait {
		if err := drive.CheckLease(ctx, c.cluster, c.options.Namespace); err != nil {
			return err
		}
	}
	return createError(c.keeper.Begin(ctx, kept, func(from *v1alpha1.SecretKey) (*v1alpha1.Prototype, bool, error) {
		if from != nil {
			c.beginning.Settings.Recipe.CustomDataFrom, d.Prototype.Spec.Settings.Recipe.CustomDataFrom = from, from
		}
		var err error
		*d, err = c.beginning.Write(ctx, *d)
		return d.Prototype, d.Existing, err
	}))
}

// confirm asks the user at the terminal before a promotion that no rollback can undo. Scripts get no question.
func (c *capturing) confirm(ctx context.Context, p *v1alpha1.Prototype, copied bool) error {
	if c.flags.yes || !c.asks() {
		return nil
	}
	preview, err := c.engine.Preview(ctx, p)
	if err == nil && preview.Departure != nil && !c.agreed("This capture would "+strings.Join(preview.Departure.Says(p.Spec.Donor.NodeName, p.Spec.Pool), "; ")+".") {
		return refusedf("not confirmed, and nothing was changed: --yes skips the confirmation")
	}
	if err != nil || !preview.NoWayBack {
		return nil // the process that does the work checks again
	}
	from := ""
	if preview.Change != nil {
		from = preview.Change.From
	}
	question := capital(capture.NoWayBackFrom(p, from, copied || p.Spec.Settings.Recipe.CustomDataFrom != nil)) + "."
	if past, err := c.cluster.Prototypes(ctx); err == nil {
		question += "\n" + print.Duration(estimate.Of(past), p.Spec.Settings)
	}
	if c.agreed(question) {
		return nil
	}
	return refusedf("not confirmed, and nothing was changed: --yes skips the confirmation")
}

// check asks the engine for refusals. If a controller does the work, the controller's credential decides. A cloud that
// refuses this command is then only worth a note.
func (c *capturing) check(ctx context.Context, p *v1alpha1.Prototype, h drive.Holder) error {
	refusals, err := c.engine.Refusals(ctx, p)
	var fromCloud *cloud.Error
	switch {
	case asCloudError(err, &fromCloud) && h.Role == drive.RoleController:
		c.note("The cloud is unreachable from here, so %s does the checks: %s.", h, fromCloud.Error())
		return nil
	case apierrors.IsForbidden(err) && h.Role == drive.RoleController:
		c.note("Some checks are forbidden from here, so %s does the checks: %s.", h, err)
		return nil
	case err != nil:
		return err
	case len(refusals) > 0:
		return refusal(fmt.Sprintf("cannot capture node %s", p.Spec.Donor.NodeName), refusals)
	default:
		return nil
	}
}

// createError explains why the API server refused a Prototype. An invalid value came from a flag.
func createError(err error) error {
	if apierrors.IsInvalid(err) {
		return &failure{ExitUsage, fmt.Errorf("the cluster refuses these settings, and nothing was changed: %w", err)}
	}
	return err
}

// dryRun shows what a capture would do. The API server checks the Prototype without storing the object.
func (c *capturing) dryRun(ctx context.Context, d drive.Decision) error {
	if d.Existing {
		return refusedf("node %s is already being captured by Prototype %s, and nothing was changed: to follow, run `kamino capture %s`",
			d.Prototype.Spec.Donor.NodeName, d.Prototype.Name, d.Prototype.Spec.Donor.NodeName)
	}
	trial := d.Prototype.DeepCopy()
	if err := c.cluster.Client.Create(ctx, trial, client.DryRunAll); err != nil {
		if !apierrors.IsInvalid(err) {
			err = fmt.Errorf("create prototype %s: %w", d.Prototype.Name, err)
		}
		return createError(err)
	}
	preview, err := c.engine.Preview(ctx, d.Prototype)
	if err != nil && len(preview.Refusals) == 0 {
		return err
	}
	kept, refusals, err := c.keeper.Copy(ctx, d.Prototype.Spec, preview.Change)
	if err != nil {
		return err
	}
	preview.Refusals = slices.Concat(d.Unknown(), preview.Refusals, refusals)
	plan := print.Plan{
		Prototype: print.Presentable(d.Prototype), Refusals: preview.Refusals, Change: preview.Change,
		Joins: d.Joins, Departure: preview.Departure, NoWayBack: preview.NoWayBack, Retires: preview.Retires, Evicts: preview.Evicts, Crowded: preview.Crowded,
	}
	if kept != nil {
		plan.CustomData = cloud.Digest(kept.Data)
	}
	if err := print.WritePlan(c.Out, c.flags.format, plan); err != nil {
		return err
	}
	if len(preview.Refusals) > 0 {
		return refusal(fmt.Sprintf("cannot capture node %s", d.Prototype.Spec.Donor.NodeName), preview.Refusals)
	}
	return nil
}

// leave names the process that does the work, for a command that does not wait.
func (c *capturing) leave(d drive.Decision, h drive.Holder) error {
	name := d.Prototype.Name
	if h.Role == drive.RoleController {
		c.note("%s does the work: to see the progress, run `kubectl get prototype %s -w`.", capital(h.String()), name)
	} else {
		c.note("No controller holds Kamino's Lease, so Prototype %s waits: "+
			"install a controller (`kamino manifests --controller`), or run `kamino capture %s`.", name, d.Prototype.Spec.Donor.NodeName)
	}
	format := c.flags.format
	if format == print.Text {
		format = print.Name
	}
	return print.Prototype(c.Out, format, d.Prototype, c.Now())
}
