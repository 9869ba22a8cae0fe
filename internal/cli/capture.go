package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cli/settings"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history/estimate"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/recipe"
	"github.com/kamino-dev/kamino/internal/runner"
	"github.com/kamino-dev/kamino/internal/wording"
)

const captureHelp = `Capture the OS disk of a node as a golden image, which new nodes of the pool then use.

The command creates a Prototype, the record of the capture, and follows it until the pool's recipe points at the new version or the capture has
failed. If a controller holds Kamino's Lease, the controller does the work; if not, this command takes the Lease and does it with the same engine.

By copy, the node stays in service without a cordon or an eviction: Kamino copies its disk while it runs, and cleans the copy on a workshop, an
instance outside the pool that it removes afterwards. In place, Kamino drains the node, cleans its disk, powers it off for the copy, and returns it.
Nodes of AKS Engine are captured in place, and all others by copy; --method chooses the other way where both are possible.

You lose nothing if you interrupt the command: run it again, or let a controller continue. To stop the capture itself, use "kamino cancel", which
also returns a drained node to service.

Settings without a flag come from a file (-f) with the fields settings, maxConcurrent and pioneer of a PrototypePolicy's spec, and a flag wins over
the file. See "kubectl explain prototypepolicies.spec.settings --recursive".`

const captureExample = `  # Show the plan and all obstacles
  kamino capture worker-3 --dry-run

  # Capture the node and watch
  kamino capture worker-3

  # In a script: return at once, the controller does the work
  kamino capture worker-3 --wait=false -o name

  # Drain and clean the node itself, although the cloud could copy its disk
  kamino capture worker-3 --method InPlace

  # First capture of a pool: keep the bootstrap script
  kamino capture worker-3 --custom-data cloud-init.yaml

  # Patch and reboot the node first, and watch the node for an hour
  kamino capture worker-3 --pioneer

  # Patch the best candidate of a pool
  kamino capture --pool workers --pioneer

  # Settings in the form of a policy's spec
  echo 'settings: {keep: 5, trial: {soak: 30m}}' | kamino capture worker-3 -f -`

// captureFlags are the flags of one capture.
type captureFlags struct {
	version string
	format  output.Format
	timeout time.Duration

	wait, dryRun, yes, install bool
	// customDataFile is the file for a copy of the pool's customData, with the content customData.
	customDataFile string
	customData     []byte

	// settingsFile is the file with all settings. The flags below replace single settings.
	settingsFile            string
	profile, method         string
	trial, promotion, image string
	pool                    string
	force, pioneer          bool
	settings.Capture
}

func (c *captureFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.version, "version", "",
		"version name: a day as YYYY.MM.DD; for another version of the day, add two digits, as YYYY.MM.DD02 (default: today in UTC)")
	flags.StringVarP(&c.settingsFile, "filename", "f", "",
		"YAML `file` with settings, or - for standard input: the fields settings, maxConcurrent and pioneer of a policy's spec")
	flags.StringVar(&c.profile, "profile", "", "how nodes get their credentials: static, eks or bootstrap (default: detected from the way the node joined)")
	flags.StringVar(&c.method, "method", "",
		"how the disk becomes an image: Copy, while the node stays in service, or InPlace, which drains the node "+
			"(default: Copy, except for nodes of AKS Engine)")
	flags.BoolVar(&c.force, "force", false,
		"also evict pods without a controller; after settings.drain.timeout, delete remaining pods despite their disruption budgets")
	flags.StringVar(&c.trial, "trial", "", "where a trial node boots from the new version before the pool uses the version: Apart or Off (default: Apart)")
	flags.BoolVar(&c.pioneer, "pioneer", false,
		"patch and reboot the node, or the pool's best candidate, before the capture, and watch the node in service")
	flags.StringVar(&c.pool, "pool", "", "`name` of the pool of a pioneer, instead of NODE")
	flags.StringVar(&c.promotion, "promotion", string(v1alpha1.PromotionAutomatic), "Automatic, or Manual to wait for kamino promote")
	flags.StringVar(&c.customDataFile, "custom-data", "",
		"`file` with the original customData of the pool, or - for standard input; Kamino keeps a copy for kamino restore")
	flags.StringVar(&c.image, "image", "",
		"container image of the generalize pod, for a build of Kamino without a published image (default: KAMINO_IMAGE, or the image of this release)")
	flags.BoolVar(&c.install, "install", false,
		"install Kamino first if the cluster has no definitions of Kamino, as \"kamino manifests\" prints; a terminal is asked")
	flags.BoolVar(&c.wait, "wait", true, "wait until the capture has ended")
	flags.BoolVar(&c.dryRun, "dry-run", false, "print the plan and all obstacles, and change nothing")
	flags.BoolVarP(&c.yes, "yes", "y", false, "skip the confirmation that a terminal asks for before a pool's first capture")
	flags.DurationVar(&c.timeout, "timeout", 0, "stop after this time; a capture that has begun continues (default: never)")
}

// complete reads the files, and puts the given flags into the settings.
func (c *captureFlags) complete(flags *pflag.FlagSet, args []string, in io.Reader, now time.Time) error {
	if (len(args) == 0) == (c.pool == "") {
		return usagef("name either a node, or with --pioneer a pool: run `kamino capture NODE`, or `kamino capture --pool POOL --pioneer`")
	}
	if c.settingsFile == "-" && c.customDataFile == "-" {
		return usagef("only one of --filename and --custom-data can read standard input")
	}
	var given []settings.Value
	for _, v := range []struct {
		flag, path string
		value      any
	}{
		{"profile", "generalize.profile", c.profile}, {"method", "donor.method", c.method}, {"force", "drain.force", c.force},
		{"trial", "trial.mode", c.trial},
		{"promotion", "promotion.mode", c.promotion}, {"image", "generalize.image", c.image},
	} {
		if flags.Changed(v.flag) {
			given = append(given, settings.Value{Path: v.path, Value: v.value})
		}
	}
	var err error
	if c.Capture, err = settings.Read(in, c.settingsFile, given...); err != nil {
		return &failure{Code: ExitUsage, Err: err}
	}
	if c.pioneer && c.Pioneer == nil {
		c.Pioneer = &v1alpha1.PioneerSettings{}
	}
	if c.pool != "" && c.Pioneer == nil {
		return usagef("--pool needs --pioneer: without a pioneer, name the node, or run `kamino auto --pool %s`", c.pool)
	}
	if c.customDataFile != "" && c.Settings.Recipe.CustomDataFrom != nil {
		return usagef("use only one of --custom-data and settings.recipe.customDataFrom")
	}
	if c.customData, err = recipe.ReadCustomData(in, c.customDataFile); err != nil {
		return &failure{Code: ExitUsage, Err: err}
	}
	return checkVersion(c.version, now)
}

// checkVersion checks the flag --version: a day as YYYY.MM.DD, or a further version of a day. Empty means today. A future day
// would block all captures until that day, because later captures would not be newer.
func checkVersion(text string, now time.Time) error {
	if text == "" {
		return nil
	}
	day, err := imageversion.Day(text)
	switch today := imageversion.Of(now); {
	case err != nil:
		return usagef("--version %q is not a day in the form YYYY.MM.DD, such as 2026.03.09, or 2026.03.0902 for the day's second version", text)
	case imageversion.Compare(imageversion.Of(day), today) > 0:
		return usagef("--version %s is in the future: today is %s (UTC), and older versions could not follow", text, today)
	}
	return nil
}

func newCaptureCommand(f *Factory, o *Options) *cobra.Command {
	var flags captureFlags
	cmd := &cobra.Command{
		Use:               "capture [NODE]",
		Short:             "Capture a node as the golden image for new nodes of its pool",
		Long:              captureHelp,
		Example:           captureExample,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodes(f, o),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.complete(cmd.Flags(), args, f.In, f.Now()); err != nil {
				return err
			}
			if image := flags.Settings.Generalize.Image; image != "" {
				o.AllowedImages = append(o.AllowedImages, image) // the user of this command decides about its image
			}
			if f.LimitRuntime != nil {
				f.LimitRuntime()
			}
			o.CustomData, o.MaxConcurrent = flags.customData, int(flags.MaxConcurrent)
			s, err := open(cmd.Context(), f, o, false)
			if err != nil {
				return err
			}
			node := strings.TrimPrefix(strings.TrimPrefix(strings.Join(args, ""), "node/"), "nodes/")
			return (&capturing{session: s, flags: &flags,
				beginning: &runner.CaptureRequest{
					Cluster: s.cluster, Cloud: s.provider, Now: s.Now, Node: node, Decider: s.decider, Version: flags.version,
					Settings: flags.Settings, Pioneer: flags.Pioneer, Written: flags.Written,
				},
				keeper: &recipe.CustomDataKeeper{Secrets: s.secrets(), Cloud: s.provider, CustomData: flags.customData, Say: s.note},
			}).run(cmd.Context())
		},
	}
	flags.bind(cmd.Flags())
	output.Bind(cmd, &flags.format, output.Table, output.Wide, output.JSON, output.YAML, output.Name)
	output.Complete(cmd, "profile", profiles()...)
	output.Complete(cmd, "method", string(v1alpha1.MethodCopy), string(v1alpha1.MethodInPlace))
	output.Complete(cmd, "trial", string(v1alpha1.TrialApart), string(v1alpha1.TrialOff))
	output.Complete(cmd, "promotion", string(v1alpha1.PromotionAutomatic), string(v1alpha1.PromotionManual))
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(f, o))
	_ = cmd.MarkFlagFilename("custom-data")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	return cmd
}

// capturing is one run of `kamino capture`.
type capturing struct {
	*session
	beginning *runner.CaptureRequest
	keeper    *recipe.CustomDataKeeper
	flags     *captureFlags
}

// run captures within --timeout.
func (c *capturing) run(ctx context.Context) error {
	within, cancel := limited(ctx, c.flags.timeout)
	defer cancel()
	d, err := c.decide(within)
	if err != nil || d.Prototype == nil {
		return orCutShort(within, err, "No capture is followed yet: run the same command again")
	}
	return c.follow(within, d.Prototype, c.flags.format)
}

// decide creates the Prototype. Without a Prototype in the result, there is nothing to follow.
func (c *capturing) decide(ctx context.Context) (none runner.Decision, err error) {
	if c.flags.pool != "" {
		if err := c.beginning.ChooseNode(ctx, c.pools(), c.flags.pool); err != nil {
			return none, err
		}
	}
	d, err := c.beginning.Decide(ctx)
	if err == nil && d.NotInstalled && !c.flags.dryRun {
		d, err = c.install(ctx, d)
	}
	if err != nil {
		return none, err
	}
	if d.Skipped != "" {
		c.note("Version %s already exists, and no succeeded Prototype is left of it: this capture creates version %s.", d.Skipped, d.Prototype.Spec.Version)
	}
	if c.flags.dryRun {
		return none, c.dryRun(ctx, d)
	}
	holder, err := runner.LeaseHolder(ctx, c.cluster, c.options.Namespace, c.Now())
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
	if d.Prototype.Spec.StaysInService() {
		c.note("Node %s stays in service: Kamino copies its disk in use, and cleans the copy on a workshop.", d.Prototype.Spec.Donor.NodeName)
	}
	if !c.flags.wait {
		return none, c.leave(d, holder)
	}
	if d.Existing {
		c.note("A capture of node %s is already running: following Prototype %s.", d.Prototype.Spec.Donor.NodeName, d.Prototype.Name)
	}
	return d, nil
}

// begin checks for refusals, and creates the Prototype.
func (c *capturing) begin(ctx context.Context, d *runner.Decision, h runner.Holder) error {
	if len(c.flags.Written) > 0 {
		if err := createError(c.beginning.Validate(ctx, d.Prototype)); err != nil {
			return err
		}
	}
	if unknown := d.Unknown(); len(unknown) > 0 {
		chosen := v1alpha1.Profile(c.chosen(wording.Capital(d.Joins.Why)+".\nName the profile: "+bootstrapkind.Choice+".", profiles()...))
		if chosen == "" {
			return refusal(fmt.Sprintf("cannot capture node %s", c.beginning.Node), unknown)
		}
		c.beginning.Take(d, chosen)
	}
	if err := c.check(ctx, d.Prototype, h); err != nil {
		return err
	}
	kept, refusals, err := c.keeper.CopyFor(ctx, d.Prototype.Spec, h.Role == runner.RoleController)
	if err != nil {
		return err
	}
	if len(refusals) > 0 {
		return refusal(fmt.Sprintf("cannot capture node %s", c.beginning.Node), refusals)
	}
	if err := c.confirm(ctx, d.Prototype, kept != nil); err != nil {
		return err
	}
	if h.Role != runner.RoleController && c.flags.wait {
		if err := runner.CheckLease(ctx, c.cluster, c.options.Namespace); err != nil {
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
	preview, err := c.engine.Preview(ctx, p, nil)
	if err != nil || !preview.Irreversible {
		return nil // the process that does the work checks again
	}
	from := ""
	if preview.Change != nil {
		from = preview.Change.From
	}
	question := wording.Capital(capture.FirstPromotionNotice(p, from, copied || p.Spec.Settings.Recipe.CustomDataFrom != nil)) + "."
	if past, err := c.cluster.Prototypes(ctx); err == nil {
		question += "\n" + print.Duration(estimate.Of(past, p.Spec.Settings.CopiesDonor()), p.Spec.Settings)
	}
	if c.agreed(question) {
		return nil
	}
	return refusedf("not confirmed, and nothing was changed: --yes skips the confirmation")
}

// check asks the engine for refusals. If a controller does the work, the controller's credential decides. A cloud that
// refuses this command is then only worth a note.
func (c *capturing) check(ctx context.Context, p *v1alpha1.Prototype, h runner.Holder) error {
	refusals, err := c.engine.Refusals(ctx, p)
	var fromCloud *cloud.Error
	switch {
	case asCloudError(err, &fromCloud) && h.Role == runner.RoleController:
		c.note("The cloud is unreachable from here, so %s does the checks: %s.", h, fromCloud.Error())
		return nil
	case apierrors.IsForbidden(err) && h.Role == runner.RoleController:
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

// createError explains why the API server refused a Prototype. An invalid value came from the settings.
func createError(err error) error {
	if !apierrors.IsInvalid(err) {
		return err
	}
	_, wrong, _ := strings.Cut(err.Error(), "is invalid: ")
	return usagef("the cluster refuses these settings, and nothing was changed: %s", strings.ReplaceAll(wrong, "spec.settings", "settings"))
}

// dryRun shows what a capture would do. The API server checks the Prototype without storing the object.
func (c *capturing) dryRun(ctx context.Context, d runner.Decision) error {
	if d.Existing {
		return refusedf("node %s is already being captured by Prototype %s, and nothing was changed: to follow, run `%s`",
			d.Prototype.Spec.Donor.NodeName, d.Prototype.Name, print.CaptureCommand(d.Prototype))
	}
	if d.NotInstalled {
		c.note("The cluster has no definitions of Kamino, so the API server does not check the settings.")
	} else if err := c.beginning.Validate(ctx, d.Prototype); err != nil {
		return createError(err)
	}
	preview, err := c.preview(ctx, d)
	if err != nil && len(preview.Refusals) == 0 {
		return err
	}
	kept, refusals, err := c.keeper.Copy(ctx, d.Prototype.Spec, preview.Change)
	if err != nil {
		return err
	}
	preview.Refusals = slices.Concat(d.Unknown(), preview.Refusals, refusals)
	plan := print.Plan{Prototype: print.Presentable(d.Prototype), Installs: d.NotInstalled, Joins: d.Joins, Method: d.Method, Preview: preview}
	if kept != nil {
		plan.CustomData = cloud.Digest(kept.Data)
	}
	if settings := d.Prototype.Spec.Settings; plan.Copy != nil || len(settings.Trial.MachineTypes) > 0 {
		if past, err := c.cluster.Prototypes(ctx); err == nil {
			plan.Estimate = estimate.Of(past, plan.Copy != nil).Tried(settings)
		}
		if plan.Copy != nil {
			plan.Estimate = plan.Estimate.Billed(plan.Copy.InstanceType, plan.Copy.DiskGB)
		}
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
func (c *capturing) leave(d runner.Decision, h runner.Holder) error {
	name := d.Prototype.Name
	if h.Role == runner.RoleController {
		c.note("%s does the work: to see the progress, run `kubectl get prototype %s -w`.", wording.Capital(h.String()), name)
	} else {
		c.note("No controller holds Kamino's Lease, so Prototype %s waits: "+
			"install a controller (`kamino manifests --controller`), or run `%s`.", name, print.CaptureCommand(d.Prototype))
	}
	format := c.flags.format
	if format == output.Text {
		format = output.Name
	}
	return print.Prototype(c.Out, format, d.Prototype, c.Now())
}
