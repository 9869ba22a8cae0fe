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
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cli/limit"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/drive"
	"github.com/kamino-dev/kamino/internal/joining"
)

const captureHelp = `Capture the node's OS disk and make the pool's next nodes copies of it.

The command writes a Prototype, the record of the decision, and follows it until the pool's recipe points
at the new version or the capture has failed. If a controller holds Kamino's Lease, it does the work; else
this command does it, with the same engine and under the same Lease.

Interrupting the command loses nothing. The same command again, or a controller, goes on from where the
capture is; "kamino cancel" stops it and gives the node back first, or removes it where it cannot return any more.

Exit codes: 0 done; 1 unexpected; 2 wrong usage; 3 refused, nothing was changed; 4 the capture failed and the
node was given back; 5 a credential or a permission; 6 the API server or the cloud can't be reached;
130 interrupted, or --timeout is over.`

const captureExample = `  # What would be done, and what is in the way
  kamino capture worker-3 --dry-run

  # Capture it and watch
  kamino capture worker-3

  # In a script: leave at once, the controller does the work
  kamino capture worker-3 --wait=false -o name

  # A pool's first capture: keep what its nodes were bootstrapped with
  kamino capture worker-3 --custom-data cloud-init.yaml

  # Grow the pool by two copies afterwards, and keep five versions
  kamino capture worker-3 --new-nodes 2 --keep 5`

// captureFlags are what a person says about one capture.
type captureFlags struct {
	version string
	format  print.Format
	timeout time.Duration

	wait, dryRun, yes bool
	// newNodesTimeout is how long new nodes are awaited.
	newNodesTimeout time.Duration
	// customDataFrom names the Secret that holds a copy of the pool's customData, as NAME or NAME/KEY; customDataFile the
	// file that one is made from, whose content customData is.
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
	flags.StringVar(&c.version, "version", "", "name of the version: a day as YYYY.MM.DD, with two more digits for a further one of the day, as YYYY.MM.DD02 (default: today in UTC)")
	flags.StringVar((*string)(&s.Donor.Afterwards), "afterwards", "", "what becomes of the node once its disk was copied: Return or Remove (default: by the profile)")
	flags.BoolVar(&c.growFirst, "grow-first", true, "where the node is removed, have the pool grow by one and the new node be Ready before it is taken")
	flags.DurationVar(&c.gracePeriod, "grace-period", 0, "time that every pod gets to end (default: each pod's own)")
	flags.DurationVar(&s.Drain.Timeout.Duration, "drain-timeout", 15*time.Minute, "time after which a drain that is not done fails the capture")
	flags.BoolVar(&s.Drain.Force, "force", false, "also evict pods that nothing makes again, and delete against their budgets what is left at --drain-timeout")
	flags.BoolVar(&s.Drain.Disrupt, "disrupt", false, "take the node, and evict pods, although they ask not to be disrupted by an annotation of Karpenter's or the cluster autoscaler's")
	flags.StringVar(&c.maxUnavailable, "max-unavailable", v1alpha1.DefaultMaxUnavailable, "how many of the pool's nodes may be not Ready or cordoned, this one included: a number or a share")
	flags.DurationVar(&s.OutOfService.Deadline.Duration, "deadline", 30*time.Minute, "longest time that the node may be out of service without a snapshot")
	flags.DurationVar(&s.OutOfService.ReadyTimeout.Duration, "ready-timeout", 15*time.Minute, "time past --deadline that the started node may take to be Ready, before it is given back as it is; of a node that does not return, time that the one in its place may take")
	flags.StringVar((*string)(&s.Generalize.Profile), "profile", "", "how the cluster's nodes get their credentials: static, eks or bootstrap (default: found by how the node joined)")
	flags.StringVar((*string)(&s.Generalize.UnknownFiles), "unknown-files", "", "what to do about files that neither a package nor an image nor the base system brought: Allow or Refuse (default Allow)")
	flags.StringVar(&s.Generalize.Rules, "rules", "", "ConfigMap in the namespace of the pod that generalizes the disk, with rules, agents and exemptions of your own")
	flags.StringVar(&s.Generalize.Image, "image", "", "image of the pod that generalizes the disk (default: Kamino's own)")
	flags.Int32Var(&c.replicas, "replicas", 0, "on Azure, replicas of the image version in the pool's region (default: by the pool's maximum size)")
	flags.Int32Var(&c.volumeRate, "volume-initialization-rate", 0, "on AWS, how fast root volumes of the version's nodes are read from their snapshot, in MiB/s (default: as the launch template has it)")
	flags.Int32Var(&s.Keep, "keep", 3, "how many versions of the pool are kept, at least 2")
	flags.Int32Var(&s.Recipe.NewNodes, "new-nodes", 0, "by how many nodes the pool grows afterwards")
	flags.DurationVar(&c.newNodesTimeout, "new-nodes-timeout", 20*time.Minute, "how long the nodes of --new-nodes may take to be Ready; exit code 4 if they do not")
	flags.StringVar((*string)(&s.Trial.Mode), "trial", "", "where a trial node is built from the version before the pool uses it: Apart, InPool or Off (default: by what the pool allows)")
	flags.DurationVar(&c.soak, "soak", v1alpha1.DefaultSoak, "how long the trial node must stay Ready")
	flags.DurationVar(&s.Trial.Timeout.Duration, "trial-timeout", v1alpha1.DefaultTrialTimeout, "how long the trial may take, with attempts that could not tell")
	flags.StringSliceVar(&s.Trial.IgnoreDaemonSets, "trial-ignore-daemonset", nil, "DaemonSet, as NAMESPACE/NAME, that need not be Ready on the trial node; may be repeated")
	flags.StringVar(&s.Trial.Job, "trial-job", "", "ConfigMap in the namespace of the generalize pods whose job.yaml is a Job that must succeed on the trial node")
	flags.StringVar(&s.Trial.Outside, "trial-outside", "", "name outside the cluster, such as example.com, that pods on the trial node must find (default: none is looked for)")
	flags.StringVar((*string)(&s.Promotion.Mode), "promotion", string(v1alpha1.PromotionAutomatic), "who points the pool at the version: Automatic, or Manual to wait for kamino promote")
	flags.DurationVar(&s.Promotion.Timeout.Duration, "promotion-timeout", v1alpha1.DefaultPromotionTimeout, "how long a version waits to be promoted by a person")
	flags.BoolVar(&c.wait, "wait", true, "follow the capture until it has ended")
	flags.BoolVar(&c.dryRun, "dry-run", false, "say what would be done and what is in the way, and change nothing")
	flags.StringVar(&c.customDataFile, "custom-data", "", "`file` that the pool's customData was made from, or - for standard input: a copy is kept with what the recipe loses, for kamino restore")
	flags.StringVar(&c.customDataFrom, "custom-data-from", "", "Secret in Kamino's namespace, as NAME or NAME/KEY, with a copy of the pool's customData, which is kept with what the recipe loses (key customData if none is named)")
	flags.BoolVarP(&c.yes, "yes", "y", false, "ask nothing: before a pool's first version, a terminal is asked whether to go on without a way back")
	flags.DurationVar(&c.timeout, "timeout", 0, "stop after this time; a capture that was begun goes on (default: never)")
}

// complete reads what has no zero value that means "not said".
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
		return usagef("--custom-data and --custom-data-from give the same thing: use one of them")
	}
	if c.customDataFrom != "" {
		name, key, _ := strings.Cut(c.customDataFrom, "/")
		c.settings.Recipe.CustomDataFrom = &v1alpha1.SecretKey{Name: name, Key: key}
	}
	most := intstr.Parse(c.maxUnavailable)
	c.settings.OutOfService.MaxUnavailable = &most
	if err := cmp.Or(limit.Settings(c.settings), limit.Version(c.version, now)); err != nil {
		return &ending{ExitUsage, err}
	}
	return nil
}

func newCaptureCommand(f *Factory, o *Options) *cobra.Command {
	var flags captureFlags
	cmd := &cobra.Command{
		Use:               "capture NODE",
		Short:             "Capture a node, so that the pool's next nodes are copies of it",
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
			if flags.customData, err = readCustomData(f.In, flags.customDataFile); err != nil {
				return err
			}
			if image := flags.settings.Generalize.Image; image != "" {
				o.AllowedImages = append(o.AllowedImages, image) // whoever runs this command decides what it runs
			}
			if f.Calm != nil {
				f.Calm()
			}
			s, err := open(cmd.Context(), f, o)
			if err != nil {
				return err
			}
			node := strings.TrimPrefix(strings.TrimPrefix(args[0], "node/"), "nodes/")
			return (&capturing{session: s, flags: &flags, beginning: &drive.Keeping{
				Beginning: drive.Beginning{Cluster: s.cluster, Cloud: s.provider, Now: s.Now, Node: node, Version: flags.version, Settings: flags.settings},
				Secrets:   s.secrets(), CustomData: flags.customData, Say: s.note,
			}}).run(cmd.Context())
		},
	}
	flags.bind(cmd.Flags())
	bindOutput(cmd, &flags.format, print.Table, print.Wide, print.JSON, print.YAML, print.Name)
	completeProfiles(cmd)
	_ = cmd.MarkFlagFilename("custom-data")
	cmd.Flags().IntVar(&o.MaxConcurrent, "max-concurrent", 1,
		"how many nodes of the cluster may be out of service at once, each of another pool, if this command does the work")
	return cmd
}

// capturing is one `kamino capture`.
type capturing struct {
	*session
	beginning *drive.Keeping
	flags     *captureFlags
}

// run captures within --timeout, which does not bound the wait for new nodes.
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

// decide looks, and writes the Prototype that is to be followed. Without one in its result, there is nothing to follow.
func (c *capturing) decide(ctx context.Context) (none drive.Decision, err error) {
	d, err := c.beginning.Decide(ctx)
	if err != nil {
		return none, err
	}
	if d.Skipped != "" {
		c.note("Version %s exists already, and no capture that has succeeded owns it: this one makes %s.", d.Skipped, d.Prototype.Spec.Version)
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
		err = c.beginning.Same(ctx, d.Prototype)
	}
	if err != nil {
		return none, err
	}
	if !c.flags.wait {
		return none, c.leave(d, holder)
	}
	if d.Existing {
		c.note("Node %s is being captured already: following Prototype %s.", c.beginning.Node, d.Prototype.Name)
	}
	return d, nil
}

// begin makes sure that nothing is in the way, and has the Prototype written.
func (c *capturing) begin(ctx context.Context, d *drive.Decision, h drive.Holder) error {
	if unknown := d.Unknown(); len(unknown) > 0 {
		chosen := v1alpha1.Profile(c.chosen(capital(d.Joins.Why)+".\nName the profile: "+joining.Choice+".", limit.Profiles()...))
		if chosen == "" {
			return refusal(fmt.Sprintf("node %s can't be captured", c.beginning.Node), unknown)
		}
		if err := c.beginning.Take(ctx, d, chosen); err != nil {
			return err
		}
	}
	if err := c.check(ctx, d.Prototype, h); err != nil {
		return err
	}
	kept, refusals, err := c.beginning.CopyFor(ctx, *d, h)
	if err != nil {
		return err
	}
	if len(refusals) > 0 {
		return refusal(fmt.Sprintf("node %s can't be captured", c.beginning.Node), refusals)
	}
	if err := c.confirm(ctx, d.Prototype, kept != nil); err != nil {
		return err
	}
	if h.Role != drive.RoleController && c.flags.wait {
		if err := drive.CheckLease(ctx, c.cluster, c.options.Namespace); err != nil {
			return err
		}
	}
	*d, err = c.beginning.Write(ctx, *d, kept)
	return createError(err)
}

// confirm asks whoever sits at the terminal before a promotion that no rollback undoes. Scripts are asked nothing.
func (c *capturing) confirm(ctx context.Context, p *v1alpha1.Prototype, copied bool) error {
	if c.flags.yes || !c.asks() {
		return nil
	}
	preview, err := c.engine.Preview(ctx, p)
	if err == nil && preview.Departure != nil && !c.agreed("This capture would "+strings.Join(preview.Departure.Says(p.Spec.Donor.NodeName, p.Spec.Pool), "; ")+".") {
		return refusedf("not begun, and nothing was changed: --yes begins it without a question")
	}
	if err != nil || !preview.NoWayBack {
		return nil // whoever does the work asks again what there is
	}
	from := ""
	if preview.Change != nil {
		from = preview.Change.From
	}
	if c.agreed(capital(capture.NoWayBackFrom(p, from, copied || p.Spec.Settings.Recipe.CustomDataFrom != nil)) + ".") {
		return nil
	}
	return refusedf("not begun, and nothing was changed: --yes begins it without a question")
}

// check asks the engine what is in the way. Where a controller does the work, its credential counts and
// not this command's, so that a cloud which can't be asked from here is only worth a note.
func (c *capturing) check(ctx context.Context, p *v1alpha1.Prototype, h drive.Holder) error {
	refusals, err := c.engine.Refusals(ctx, p)
	var fromCloud *cloud.Error
	switch {
	case asCloudError(err, &fromCloud) && h.Role == drive.RoleController:
		c.note("The cloud can't be asked from here, %s checks it: %s.", h, fromCloud.Error())
		return nil
	case apierrors.IsForbidden(err) && h.Role == drive.RoleController:
		c.note("Not all can be asked from here, %s checks it: %s.", h, err)
		return nil
	case err != nil:
		return err
	case len(refusals) > 0:
		return refusal(fmt.Sprintf("node %s can't be captured", p.Spec.Donor.NodeName), refusals)
	default:
		return nil
	}
}

// createError says why the API server did not take a Prototype. A value that its rules refuse came from a flag.
func createError(err error) error {
	if apierrors.IsInvalid(err) {
		return &ending{ExitUsage, fmt.Errorf("the cluster refuses these settings, and nothing was changed: %w", err)}
	}
	return err
}

// dryRun says what a capture would do. The API server checks the Prototype without keeping it.
func (c *capturing) dryRun(ctx context.Context, d drive.Decision) error {
	if d.Existing {
		return refusedf("node %s is being captured already by Prototype %s, and nothing was changed: `kamino capture %s` follows it",
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
	kept, refusals, err := c.beginning.Copy(ctx, d, preview.Change)
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
		return refusal(fmt.Sprintf("node %s can't be captured", d.Prototype.Spec.Donor.NodeName), preview.Refusals)
	}
	return nil
}

// leave says who will do the work of a capture that nobody waits for.
func (c *capturing) leave(d drive.Decision, h drive.Holder) error {
	name := d.Prototype.Name
	if h.Role == drive.RoleController {
		c.note("%s does the work: `kubectl get prototype %s -w` shows how far it is.", capital(h.String()), name)
	} else {
		c.note("No controller holds Kamino's Lease: nothing happens to Prototype %s until one runs (`kamino manifests --controller`) "+
			"or `kamino capture %s` goes on with it.", name, d.Prototype.Spec.Donor.NodeName)
	}
	format := c.flags.format
	if format == print.Text {
		format = print.Name
	}
	return print.Prototype(c.Out, format, d.Prototype, c.Now())
}
