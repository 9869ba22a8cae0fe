package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/patch/dnf"
	"github.com/kamino-dev/kamino/internal/patch"
)

// dnfNode carries out one order with dnf.
type dnfNode struct {
	*Node
	order  patch.Order
	report *patch.Report
	// release to which the order patches; empty for the system's own.
	release string
	// before is the list of packages at the begin.
	before []patch.Installed
	began  time.Time
}

func (d *dnfNode) carryOut(ctx context.Context) *patch.Failure {
	if d.order.Method == patch.Patch {
		found, err := d.Units.State(ctx, d.unitName(""))
		if err != nil {
			return nodeFailed(err)
		}
		if found.Known {
			d.logf("found unit %s of an earlier pod", d.unitName(""))
			return d.resume(ctx)
		}
	}
	for _, step := range []func(context.Context) *patch.Failure{d.readPackages, d.findRelease, d.update} {
		if failure := step(ctx); failure != nil {
			return failure
		}
	}
	plan, failure := d.plan(ctx)
	if failure != nil {
		return failure
	}
	if d.order.Method == patch.Check || len(plan.Install) == 0 {
		return d.witnesses(ctx)
	}
	return d.install(ctx, plan)
}

// dnf runs dnf with the order's options. Another dnf's lock is awaited.
func (d *dnfNode) dnf(ctx context.Context, step dnf.Step, args []string, codes ...int) (output, *patch.Failure) {
	for waited := time.Duration(0); ; waited += unitPoll {
		o, err := d.run(ctx, dnf.Environment(), dnf.DNF, append(dnf.Options(d.release), args...)...)
		if err != nil {
			return o, nodeFailed(err)
		}
		if o.code == 0 || slices.Contains(codes, o.code) && !strings.Contains(o.all(), "Error") {
			return o, nil
		}
		failure := dnf.Trouble(step, o.all(), o.code)
		if failure.Reason != patch.Locked || waited >= dnf.LockSeconds*time.Second {
			return o, failure
		}
		if err := d.Wait(ctx, unitPoll); err != nil {
			return o, failure
		}
	}
}

// packages reads rpm's list, and fills in level and health.
func (d *dnfNode) packages(ctx context.Context) ([]patch.Installed, *patch.Failure) {
	listed, err := d.run(ctx, dnf.Environment(), dnf.RPM, dnf.ListPackages()...)
	if err != nil {
		return nil, nodeFailed(err)
	}
	packages := dnf.Packages(listed.stdout)
	if listed.code != 0 || len(packages) == 0 {
		return nil, nodeFailed(fmt.Errorf("rpm lists no packages (exit code %d): %s", listed.code, strings.TrimSpace(listed.stderr)))
	}
	checked, err := d.run(ctx, dnf.Environment(), dnf.DNF, append(dnf.Options(d.release), dnf.Check()...)...)
	if err != nil {
		return nil, nodeFailed(err)
	}
	history, err := d.history(ctx)
	if err != nil {
		return nil, nodeFailed(err)
	}
	r := d.report
	r.After, r.Health = patch.Level(packages), patch.Healthy
	switch {
	case history.Interrupted():
		r.Health = patch.HealthInterrupted
	case checked.code != 0:
		r.Health = patch.Broken
	}
	return packages, nil
}

func (d *dnfNode) history(ctx context.Context) (dnf.History, error) {
	// A system without a transaction exits 1.
	o, err := d.run(ctx, dnf.Environment(), dnf.DNF, append(dnf.Options(d.release), dnf.LastTransaction()...)...)
	return dnf.ParseHistory(o.stdout), err
}

// readPackages reads the packages before the transaction. dnf has no repair of an interrupted transaction.
func (d *dnfNode) readPackages(ctx context.Context) *patch.Failure {
	var failure *patch.Failure
	if d.before, failure = d.packages(ctx); failure != nil {
		return failure
	}
	d.report.Before = d.report.After
	if d.report.Health != patch.Healthy {
		return &patch.Failure{Reason: patch.Interrupted, Message: fmt.Sprintf(
			"dnf is %s: run dnf check and dnf history info last on the node, or replace the node", strings.ToLower(string(d.report.Health)))}
	}
	return nil
}

// findRelease finds the newest release of a system that is locked to the release of its image.
func (d *dnfNode) findRelease(ctx context.Context) *patch.Failure {
	if !dnf.IsLockedToRelease(d.system) {
		return nil
	}
	o, failure := d.dnf(ctx, dnf.StepRelease, dnf.ReleaseUpdate())
	if failure != nil {
		return failure
	}
	if d.release = dnf.NewestRelease(o.all()); d.release != "" {
		d.logf("patching to release %s", d.release)
	}
	return nil
}

// update reads the repositories. A single unread repository fails the order: its patches are unknown.
func (d *dnfNode) update(ctx context.Context) *patch.Failure {
	made, failure := d.dnf(ctx, dnf.StepUpdate, dnf.MakeCache())
	info, err := d.run(ctx, dnf.Environment(), dnf.DNF, append(dnf.Options(d.release), dnf.RepoInfo()...)...)
	if err != nil {
		return nodeFailed(err)
	}
	d.report.Repositories = dnf.Repositories(info.stdout, made.all(), failure == nil)
	if failure == nil && len(d.report.Repositories) == 0 {
		failure = &patch.Failure{Reason: patch.RepositoryNotRead, Message: "dnf has no enabled repository"}
	}
	return failure
}

// simulate runs a simulation, and completes its result.
func (d *dnfNode) simulate(ctx context.Context, args []string) (dnf.Plan, *patch.Failure) {
	// --assumeno exits 1 if there is something to do.
	o, failure := d.dnf(ctx, dnf.StepSimulate, args, 1)
	if failure != nil {
		return dnf.Plan{}, failure
	}
	plan := dnf.ParsePlan(o.stdout)
	var advisories []dnf.Advisory
	for _, list := range [][]string{dnf.SecurityPackages(), dnf.CVEs()} {
		// Without advisories in the repositories the output is empty.
		o, failure := d.dnf(ctx, dnf.StepSimulate, list)
		if failure != nil {
			return plan, failure
		}
		advisories = append(advisories, dnf.Advisories(o.stdout)...)
	}
	plan.Complete(d.before, advisories)
	return plan, nil
}

// plan computes the transaction that the order allows, and fills in pending and held patches.
func (d *dnfNode) plan(ctx context.Context) (dnf.Plan, *patch.Failure) {
	all, failure := d.simulate(ctx, dnf.Upgrade(d.order.Patches == patch.Security))
	if failure != nil {
		return all, failure
	}
	published := map[string]time.Time{}
	for _, r := range d.report.Repositories {
		if !r.Date.IsZero() {
			published[r.ID] = r.Date
		}
	}
	choice, err := dnf.Choose(all, d.order, published, d.Now())
	if err != nil {
		return all, nodeFailed(err)
	}
	d.report.Held = choice.Held
	if len(choice.Specs) == 0 {
		return dnf.Plan{}, nil
	}
	plan, failure := d.simulate(ctx, dnf.Transaction(choice.Specs))
	if failure != nil {
		return plan, failure
	}
	d.report.Pending, d.report.Set, d.report.Bytes = plan.Install, patch.Digest(plan.Install), plan.Download
	refused, err := dnf.Refuse(plan, d.order)
	if err != nil {
		return plan, nodeFailed(err)
	}
	return plan, refused
}

// install runs the transaction as a unit. dnf itself checks the space for packages before it changes anything, and knows nothing of DKMS.
func (d *dnfNode) install(ctx context.Context, plan dnf.Plan) *patch.Failure {
	if plan.HasKernel() {
		modules, err := dkmsBytes(d.tree)
		if err != nil {
			return nodeFailed(err)
		}
		if failure := d.room(need{"usr", modules}); failure != nil {
			return failure
		}
	}
	last, err := d.history(ctx)
	if err != nil {
		return nodeFailed(err)
	}
	s := state{Report: *d.report, Planned: plan.Install, RPMs: d.before, Began: d.began, Release: d.release, LastTransaction: last.ID}
	if err := d.save(s); err != nil {
		return nodeFailed(fmt.Errorf("write /%s: %w", d.stateDir(), err))
	}
	o, err := d.unit(ctx, "", dnf.Environment(), dnf.DNF, append(dnf.Options(d.release), dnf.Install(plan.Specs())...)...)
	if err != nil {
		return nodeFailed(err)
	}
	return d.finish(ctx, s, o)
}

// resume waits for the unit that an earlier pod of the order has started.
func (d *dnfNode) resume(ctx context.Context) *patch.Failure {
	s, err := d.load()
	if err != nil {
		return nodeFailed(fmt.Errorf("read /%s: %w", d.stateDir(), err))
	}
	*d.report, d.before, d.began, d.release = s.Report, s.RPMs, s.Began, s.Release
	o, err := d.await(ctx, d.unitName(""))
	if err != nil {
		return nodeFailed(err)
	}
	return d.finish(ctx, s, o)
}

// finish judges the result by the history and the list of packages: dnf exits 0 after a failed script.
func (d *dnfNode) finish(ctx context.Context, s state, o output) *patch.Failure {
	after, failure := d.packages(ctx)
	if failure != nil {
		return failure
	}
	last, err := d.history(ctx)
	if err != nil {
		return nodeFailed(err)
	}
	r := d.report
	r.Installed, r.Pending = dnf.Changes(d.before, after, s.Planned), dnf.Missing(s.Planned, after)
	r.Failed = dnf.FailedScripts(o.all())
	if last.ID != s.LastTransaction {
		r.Failed = append(r.Failed, last.Failed...)
	}
	slices.Sort(r.Failed)
	r.Failed = slices.Compact(r.Failed)
	if failure := d.witnesses(ctx); failure != nil {
		return failure
	}
	switch {
	case o.code != 0:
		return dnf.Trouble(dnf.StepInstall, o.all(), o.code)
	case len(r.Failed) > 0:
		return &patch.Failure{Reason: patch.InstallFailed, Message: "dnf exited 0, but scripts of these packages failed: " + strings.Join(r.Failed, ", ")}
	case len(r.Pending) > 0:
		return &patch.Failure{Reason: patch.InstallFailed, Message: fmt.Sprintf(
			"dnf exited 0, but %d of %d patches are not installed, for example %s", len(r.Pending), len(s.Planned), r.Pending[0].Name)}
	case last.ID == s.LastTransaction || last.ReturnCode != "Success":
		return &patch.Failure{Reason: patch.InstallFailed, Message: fmt.Sprintf(
			"dnf exited 0, but transaction %s of its history has the return code %q", last.ID, last.ReturnCode)}
	}
	return d.keepsModules()
}

// witnesses fills in the need of a reboot.
func (d *dnfNode) witnesses(ctx context.Context) *patch.Failure {
	boot, err := d.list("boot")
	if err != nil {
		return nodeFailed(err)
	}
	o, err := d.run(ctx, dnf.Environment(), dnf.DNF, append(dnf.Options(d.release), dnf.NeedsRestarting()...)...)
	if err != nil {
		return nodeFailed(err)
	}
	d.report.Reboot = dnf.Reboot(o.all(), boot, d.report.Kernel)
	return nil
}
