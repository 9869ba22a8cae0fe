package host

import (
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/patch/apt"
	"github.com/kamino-dev/kamino/internal/patch"
)

// aptNode carries out one order with apt.
type aptNode struct {
	*Node
	order  patch.Order
	report *patch.Report
	// before is the list of packages at the begin, and releases are the repositories on the disk.
	before   []apt.Package
	releases []apt.Release
	// audit says what is broken; empty for a healthy dpkg.
	audit string
	// began is the begin of the order.
	began time.Time
}

// carryOut finds the pending patches, and installs them if the order says so.
func (a *aptNode) carryOut(ctx context.Context) *patch.Failure {
	install := a.unitName("")
	if a.order.Method == patch.Patch {
		found, err := a.Units.State(ctx, install)
		if err != nil {
			return nodeFailed(err)
		}
		if found.Known {
			a.logf("found unit %s of an earlier pod", install)
			return a.resume(ctx)
		}
	}
	if failure := a.readPackages(ctx); failure != nil {
		return failure
	}
	if failure := a.update(ctx); failure != nil {
		return failure
	}
	transaction, failure := a.plan(ctx)
	if failure != nil {
		return failure
	}
	if a.order.Method == patch.Check || len(transaction.Install) == 0 {
		return a.witnesses(a.report.Installed)
	}
	return a.install(ctx, transaction)
}

// packages reads dpkg's list, and fills in the level, the incomplete packages and the health.
func (a *aptNode) packages(ctx context.Context) ([]apt.Package, error) {
	status, err := a.tree.OpenFile(apt.Status, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer status.Close()
	packages, err := apt.Packages(status)
	if err != nil {
		return nil, fmt.Errorf("read /%s: %w", apt.Status, err)
	}
	updates, err := a.list(apt.Updates)
	if err != nil {
		return nil, err
	}
	audit, err := a.run(ctx, apt.Environment(), apt.Dpkg, apt.AuditArgs()...)
	if err != nil {
		return nil, err
	}
	r := a.report
	r.After, r.Failed, r.Health = apt.Level(packages), apt.Incomplete(packages), patch.Healthy
	switch {
	case apt.Interrupted(updates):
		r.Health = patch.HealthInterrupted
	case len(r.Failed) > 0 || strings.TrimSpace(audit.all()) != "":
		r.Health = patch.Broken
	}
	a.audit = apt.AuditSummary(r.Failed, audit.all())
	return packages, nil
}

// awaitLock waits until no other process changes packages: dpkg's list is incomplete meanwhile.
func (a *aptNode) awaitLock(ctx context.Context) *patch.Failure {
	for waited := time.Duration(0); ; waited += unitPoll {
		holder, err := a.lockHolder(apt.Lock)
		if err != nil {
			return nodeFailed(err)
		}
		if holder == 0 {
			return nil
		}
		if waited >= apt.LockSeconds*time.Second {
			return &patch.Failure{Reason: patch.Locked, Message: fmt.Sprintf("process %d holds /%s for more than %d s", holder, apt.Lock, apt.LockSeconds)}
		}
		if err := a.Wait(ctx, unitPoll); err != nil {
			return nodeFailed(err)
		}
	}
}

// readPackages reads the packages before the transaction, and repairs an interrupted dpkg on a drained node.
func (a *aptNode) readPackages(ctx context.Context) *patch.Failure {
	if failure := a.awaitLock(ctx); failure != nil {
		return failure
	}
	var err error
	if a.before, err = a.packages(ctx); err != nil {
		return nodeFailed(err)
	}
	a.report.Before = a.report.After
	if a.report.Health == patch.Healthy {
		return nil
	}
	what := fmt.Sprintf("dpkg is %s (%s)", strings.ToLower(string(a.report.Health)), cmp.Or(a.audit, "files in /"+apt.Updates))
	if a.order.Method != patch.Patch || !a.order.Drained {
		return &patch.Failure{Reason: patch.Interrupted, Message: what + ": Kamino repairs dpkg only on a drained node; run dpkg --configure -a"}
	}
	a.logf("%s: repairing", what)
	o, err := a.unit(ctx, "-repair", apt.Environment(), apt.Dpkg, apt.RepairArgs()...)
	if err != nil {
		return nodeFailed(err)
	}
	if a.before, err = a.packages(ctx); err != nil {
		return nodeFailed(err)
	}
	if a.report.Health != patch.Healthy {
		f := apt.Trouble(apt.StepRepair, o.all(), o.code)
		if o.code == 0 {
			f.Message = "dpkg --configure -a found nothing to do"
		}
		f.Message = what + ", and stays so: " + f.Message
		return f
	}
	return nil
}

// locked repeats a step while another process holds a lock that apt does not wait for.
func (a *aptNode) locked(ctx context.Context, step apt.Step, try func() (output, error)) (output, *patch.Failure) {
	for waited := time.Duration(0); ; waited += unitPoll {
		o, err := try()
		if err != nil {
			return o, nodeFailed(err)
		}
		if o.code == 0 {
			return o, nil
		}
		failure := apt.Trouble(step, o.all(), o.code)
		if failure.Reason != patch.Locked || waited >= apt.LockSeconds*time.Second {
			return o, failure
		}
		if err := a.Wait(ctx, unitPoll); err != nil {
			return o, failure
		}
	}
}

// update reads the repositories. A single unread repository fails the order: its patches are unknown.
func (a *aptNode) update(ctx context.Context) *patch.Failure {
	listed, err := a.run(ctx, apt.Environment(), apt.Get, apt.TargetsArgs()...)
	if err != nil {
		return nodeFailed(err)
	}
	targets := apt.ParseTargets(listed.stdout)
	if len(targets) == 0 {
		return &patch.Failure{Reason: patch.RepositoryNotRead, Message: "apt has no repository: the node's sources are empty"}
	}
	o, failure := a.locked(ctx, apt.StepUpdate, func() (output, error) {
		return a.run(ctx, apt.Environment(), apt.Get, apt.UpdateArgs()...)
	})
	a.report.Repositories = apt.Repositories(targets, o.all())
	for i, target := range targets {
		release, err := a.release(target)
		if err != nil {
			return nodeFailed(err)
		}
		a.releases = append(a.releases, release)
		a.report.Repositories[i].Date = release.Date
		if failure == nil {
			failure = apt.Expired(&a.report.Repositories[i], release, a.Now())
		}
	}
	if failure != nil {
		return failure
	}
	for _, r := range a.report.Repositories {
		if !r.Read {
			f := apt.Trouble(apt.StepUpdate, o.all(), o.code)
			f.Message = fmt.Sprintf("repository %s was not read: %s", r.ID, r.Problem)
			return f
		}
	}
	a.logf("read %d repositories", len(targets))
	return nil
}

// release reads a repository's Release file on the disk; the zero Release without one.
func (a *aptNode) release(t apt.Target) (apt.Release, error) {
	for _, file := range t.Files {
		text, err := a.readFile(file)
		if err != nil || text != "" {
			return apt.ParseRelease(text), err
		}
	}
	return apt.Release{}, nil
}

// simulate runs a simulation.
func (a *aptNode) simulate(ctx context.Context, step apt.Step, args []string) (apt.Transaction, *patch.Failure) {
	o, failure := a.locked(ctx, step, func() (output, error) { return a.run(ctx, apt.Environment(), apt.Get, args...) })
	if failure != nil {
		return apt.Transaction{}, failure
	}
	return apt.ParseSimulation(o.stdout), nil
}

// plan computes the transaction that the order allows, and fills in pending and held patches.
func (a *aptNode) plan(ctx context.Context) (apt.Transaction, *patch.Failure) {
	securityOnly := a.order.Patches == patch.Security
	all, failure := a.simulate(ctx, apt.StepSimulate, apt.UpgradeArgs(securityOnly))
	if failure != nil {
		return all, failure
	}
	choice, err := apt.Choose(all, a.order, a.before, a.releases, a.Now())
	if err != nil {
		return all, nodeFailed(err)
	}
	a.report.Held, a.report.Pending, a.report.Bytes = choice.Held, nil, 0
	if len(choice.Versions) == 0 {
		return apt.Transaction{}, nil
	}
	transaction, failure := a.simulate(ctx, apt.StepSimulate, apt.TransactionArgs(securityOnly, choice.Versions))
	if failure != nil {
		return transaction, failure
	}
	a.report.Pending, a.report.Set = transaction.Install, patch.Digest(transaction.Install)
	refused, err := apt.Refuse(transaction, a.order, a.before)
	if err != nil {
		return transaction, nodeFailed(err)
	}
	if refused != nil {
		return transaction, refused
	}
	need, failure := a.need(ctx, transaction)
	if failure != nil {
		return transaction, failure
	}
	a.report.Bytes = need.Download
	return transaction, nil
}

// need is the space for a transaction.
func (a *aptNode) need(ctx context.Context, t apt.Transaction) (apt.Need, *patch.Failure) {
	if len(t.Install) == 0 {
		return apt.Need{}, nil
	}
	shown, err := a.run(ctx, apt.Environment(), apt.Cache, apt.ShowArgs(t.Versions())...)
	if err != nil {
		return apt.Need{}, nodeFailed(err)
	}
	sizes, err := apt.Sizes([]byte(shown.stdout))
	if err != nil {
		return apt.Need{}, nodeFailed(err)
	}
	boot, err := a.list("boot")
	if err != nil {
		return apt.Need{}, nodeFailed(err)
	}
	largest := int64(0)
	for _, name := range boot {
		if info, err := a.tree.Lstat("boot/" + name); err == nil && strings.HasPrefix(name, "initr") {
			largest = max(largest, info.Size())
		}
	}
	modules, err := dkmsBytes(a.tree)
	if err != nil {
		return apt.Need{}, nodeFailed(err)
	}
	return apt.SpaceFor(t, sizes, a.before, largest, modules), nil
}

// install removes old kernels, checks the space, and runs the transaction as a unit.
func (a *aptNode) install(ctx context.Context, t apt.Transaction) *patch.Failure {
	if failure := a.removeOldKernels(ctx); failure != nil {
		return failure
	}
	n, failure := a.need(ctx, t)
	if failure == nil {
		failure = a.room(need{apt.Archives, n.Archives}, need{"usr", n.Root}, need{"boot", n.Boot})
	}
	if failure != nil {
		return failure
	}
	if err := a.save(state{Report: *a.report, Planned: t.Install, Began: a.began, Packages: a.before}); err != nil {
		return nodeFailed(fmt.Errorf("write /%s: %w", a.stateDir(), err))
	}
	o, err := a.unit(ctx, "", apt.Environment(), apt.Get, apt.InstallArgs(t.Versions())...)
	if err != nil {
		return nodeFailed(err)
	}
	return a.finish(ctx, t.Install, o)
}

// resume waits for the unit that an earlier pod of the order has started.
func (a *aptNode) resume(ctx context.Context) *patch.Failure {
	s, err := a.load()
	if err != nil {
		return nodeFailed(fmt.Errorf("read /%s: %w", a.stateDir(), err))
	}
	*a.report, a.before, a.began = s.Report, s.Packages, s.Began
	o, err := a.await(ctx, a.unitName(""))
	if err != nil {
		return nodeFailed(err)
	}
	return a.finish(ctx, s.Planned, o)
}

// finish judges the result by the list of packages, not by the exit code alone.
func (a *aptNode) finish(ctx context.Context, planned []patch.Change, o output) *patch.Failure {
	after, err := a.packages(ctx)
	if err != nil {
		return nodeFailed(err)
	}
	a.report.Installed = apt.Changes(a.before, after, planned)
	for i, c := range a.report.Installed {
		a.report.Installed[i].CVEs = a.cves(c)
	}
	if failure := a.witnesses(a.report.Installed); failure != nil {
		return failure
	}
	a.report.Pending = apt.Missing(planned, after)
	switch {
	case o.code != 0:
		failure := apt.Trouble(apt.StepInstall, o.all(), o.code)
		if len(a.report.Failed) > 0 {
			failure.Reason = patch.InstallFailed
			failure.Message = fmt.Sprintf("packages are not completely installed: %s. %s", strings.Join(a.report.Failed, ", "), failure.Message)
		}
		return failure
	case len(a.report.Pending) > 0:
		return &patch.Failure{Reason: patch.InstallFailed, Message: fmt.Sprintf(
			"apt-get exited 0, but %d of %d patches are not installed, for example %s", len(a.report.Pending), len(planned), a.report.Pending[0].Name)}
	}
	return a.keepsModules()
}

// cves reads the CVE numbers of an installed change from the package's changelog. Nothing is known without a changelog.
func (a *aptNode) cves(c patch.Change) []string {
	for _, p := range apt.ChangelogFiles(c.Name) {
		f, err := a.tree.OpenFile(p, os.O_RDONLY, 0)
		if err != nil {
			continue
		}
		defer f.Close()
		text, err := gzip.NewReader(f)
		if err != nil {
			return nil
		}
		return apt.CVEs(text, c.From)
	}
	return nil
}

// witnesses fills in the need of a reboot.
func (a *aptNode) witnesses(installed []patch.Change) *patch.Failure {
	boot, err := a.list("boot")
	if err != nil {
		return nodeFailed(err)
	}
	names, err := a.readFile(apt.RebootPackages)
	if err != nil {
		return nodeFailed(err)
	}
	a.report.Reboot = apt.Reboot(apt.RebootFacts{
		Required: a.exists(apt.RebootRequired), Packages: strings.Fields(names),
		Kernels: boot, Running: a.report.Kernel, Installed: installed,
	})
	return nil
}

// removeOldKernels keeps the kernels that apt protects: the running kernel and the newest two. A failure is no reason to
// leave the patches: the check of the space decides.
func (a *aptNode) removeOldKernels(ctx context.Context) *patch.Failure {
	unneeded, failure := a.simulate(ctx, apt.StepKernels, apt.AutoremoveArgs())
	if failure != nil {
		return failure
	}
	names := apt.ObsoleteKernels(unneeded, a.report.Kernel)
	if len(names) == 0 {
		return nil
	}
	removal, failure := a.simulate(ctx, apt.StepKernels, apt.PurgeSimulation(names))
	if failure != nil {
		return failure
	}
	if more := len(removal.Remove) != len(names) || len(removal.Install) > 0; more || !slices.Equal(removal.Remove, slices.Sorted(slices.Values(names))) {
		a.logf("old kernels stay: their removal would change other packages")
		return nil
	}
	a.logf("removing old kernels: %s", strings.Join(names, ", "))
	o, err := a.unit(ctx, "-kernels", apt.Environment(), apt.Get, apt.PurgeArgs(names)...)
	if err != nil {
		return nodeFailed(err)
	}
	if o.code != 0 {
		return apt.Trouble(apt.StepKernels, o.all(), o.code)
	}
	if a.before, err = a.packages(ctx); err != nil {
		return nodeFailed(err)
	}
	return nil
}
