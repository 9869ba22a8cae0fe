package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	patchdisk "github.com/kamino-dev/kamino/internal/agent/patch/disk"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/apt"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
)

// The demo with a pioneer: Kamino patches one node with apt, and no other node runs apt.

// pioneerState is the state that the steps of the pioneer demo share.
type pioneerState struct {
	repository *apt.Repository
	// sent is the traffic of the pioneer, and later the traffic since then.
	sent, later apt.Traffic
	// boots of the pioneer.
	boots  int
	clones []joined
}

// advisory has the new packages, with sizes as on Ubuntu 22.04. Source: packages.ubuntu.com.
var advisory = []apt.Package{
	{Name: "libssl3", Before: "3.0.2-0ubuntu1.15", Version: "3.0.2-0ubuntu1.16", CVEs: []string{"CVE-2026-0001", "CVE-2026-0002"}, Size: 1_900_000,
		Postinst: apt.RequestReboot},
	{Name: "openssl", Before: "3.0.2-0ubuntu1.15", Version: "3.0.2-0ubuntu1.16", CVEs: []string{"CVE-2026-0001"}, Size: 1_200_000},
}

// manyNodes is the number of new nodes in the second comparison.
const manyNodes = 500

// pioneerDemo has the steps and the checks of the demo.
type pioneerDemo struct{ *scenario }

func (s pioneerDemo) pioneerSteps() []step {
	return []step{
		{"A cluster starts; its nodes have apt, with a signed repository", s.nodesHaveApt},
		{"A workload runs on the cluster", s.workloadRuns},
		{"An advisory appears", s.advisoryAppears},
		{"kamino patches one node, reboots the node, watches the node in service, and captures the node", s.pioneerIsCaptured},
		{"The pool grows by two nodes from the version", s.growsPatched},
		{"Checks", s.everythingIsChecked},
		{"A patch of every new node, and one pioneer", s.comparePatching},
	}
}

func (s pioneerDemo) nodesHaveApt(ctx context.Context) (err error) {
	if s.pioneer.repository, err = apt.Serve(filepath.Join(s.dir, "repository")); err != nil {
		return err
	}
	if err := s.clusterComesUp(ctx); err != nil {
		return err
	}
	machines, err := s.world.Machines(ctx)
	if err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(filepath.Dir(machines[0].Disk), "*/var/lib/dpkg"))
	if err != nil {
		return err
	}
	for _, dir := range packages {
		if err := s.pioneer.repository.Install(strings.TrimSuffix(dir, "/var/lib/dpkg")); err != nil {
			return err
		}
	}
	return nil
}

func (s pioneerDemo) stopRepository() error {
	if s.pioneer.repository == nil {
		return nil
	}
	return s.pioneer.repository.Close()
}

func (s pioneerDemo) advisoryAppears(context.Context) error {
	for _, p := range advisory {
		s.print.event(control.Event{Subject: apt.Security,
			Text: fmt.Sprintf("%s %s fixes %s, was %s", p.Name, p.Version, strings.Join(p.CVEs, " and "), p.Before)})
	}
	return s.pioneer.repository.Publish(advisory...)
}

func (s pioneerDemo) pioneerIsCaptured(ctx context.Context) error {
	machines, err := s.world.Machines(ctx)
	if err != nil {
		return err
	}
	s.donor = machines[0].Node
	start := s.pioneer.repository.Traffic()
	if err := s.nodeIsCaptured(ctx); err != nil {
		return err
	}
	s.pioneer.sent = s.pioneer.repository.Traffic().Since(start)
	m, err := s.machineOf(s.donor)
	s.pioneer.boots = m.Boots - s.before[s.donor].Boots
	return err
}

func (s pioneerDemo) growsPatched(ctx context.Context) error {
	start := s.pioneer.repository.Traffic()
	for range 2 {
		clone, err := s.grow(ctx)
		if err != nil {
			return err
		}
		s.pioneer.clones = append(s.pioneer.clones, clone)
	}
	s.pioneer.later = s.pioneer.repository.Traffic().Since(start)
	return nil
}

func (s pioneerDemo) pioneerChecks() []check {
	return []check{
		{"apt installed the packages of the advisory on the pioneer, and nothing else", s.advisoryInstalled},
		{"the pioneer rebooted after the patch, and was healthy in service for " + soak + " before the capture", s.soaked},
		{"the version has the patch level of the signed report", s.levelIsTagged},
		{"the trial of the image passed, with all checks", s.trialPassed},
		{"the trial node is gone, with its machine", s.trialNodeIsGone},
		{"the next nodes were built from the version, and were patched at their first boot", s.clonesArePatched},
		{"no other node ran apt: the repository has no later request, and no log of apt names the packages", s.onlyPioneerRanApt},
		{"no two machines have collided", s.nothingCollided},
		{"the other nodes are unchanged", s.othersUntouched},
		{"the cloud rebuilt no running node", s.noNodeUpgraded},
		{"no snapshot, pod or lock is left", s.noLeftovers},
		{"the pioneer is back in service", s.donorIsBack},
	}
}

// patched is the report of the patch in the status of the Prototype.
func (s pioneerDemo) patched() (*v1alpha1.PatchStatus, error) {
	p := s.capture.prototype.Status.Patch
	if p == nil || p.Level == "" {
		return nil, fmt.Errorf("status.patch is %+v", p)
	}
	return p, nil
}

func (s pioneerDemo) advisoryInstalled(context.Context) error {
	p, err := s.patched()
	if err != nil {
		return err
	}
	if int(p.Installed) != len(advisory) {
		return fmt.Errorf("%d packages were installed, the advisory has %d", p.Installed, len(advisory))
	}
	if s.pioneer.sent.Bytes < advisory[0].Size+advisory[1].Size {
		return fmt.Errorf("the repository sent %d bytes", s.pioneer.sent.Bytes)
	}
	return nil
}

func (s pioneerDemo) soaked(context.Context) error {
	p, err := s.patched()
	if err != nil {
		return err
	}
	want, err := time.ParseDuration(soak)
	if err != nil {
		return err
	}
	phases := []v1alpha1.Phase{v1alpha1.PhasePatching, v1alpha1.PhaseRebooting, v1alpha1.PhaseSoaking, v1alpha1.PhaseGeneralizing}
	for _, step := range s.capture.prototype.Status.Steps {
		if len(phases) > 0 && step.Phase == phases[0] {
			phases = phases[1:]
		}
	}
	// The status has whole seconds.
	if served := p.FinishedAt.Sub(p.HealthySince.Time); len(phases) > 0 || served < want-time.Second {
		return fmt.Errorf("the node served for %s; missing steps: %v", served, phases)
	}
	return nil
}

func (s pioneerDemo) levelIsTagged(ctx context.Context) error {
	p, err := s.patched()
	if err != nil {
		return err
	}
	tags, err := s.tagsOf(ctx, s.capture.prototype.Spec.Version)
	if err != nil {
		return err
	}
	if tags[cloud.TagPatchLevel] != p.Level {
		return fmt.Errorf("the tag is %s, the report says %s", tags[cloud.TagPatchLevel], p.Level)
	}
	return nil
}

func (s pioneerDemo) clonesArePatched(ctx context.Context) error {
	p, err := s.patched()
	if err != nil {
		return err
	}
	for _, c := range s.pioneer.clones {
		version, err := s.world.VersionOf(ctx, s.pool, c.machine.Image)
		if err != nil {
			return err
		}
		level, err := levelOf(c.machine)
		switch {
		case err != nil:
			return err
		case version != s.capture.prototype.Spec.Version:
			return fmt.Errorf("%s was built from %s", c.Node, c.machine.Image)
		case level != p.Level:
			return fmt.Errorf("%s has openssl %s and patch level %s, want %s", c.Node, c.machine.Packages["openssl"], level, p.Level)
		case c.machine.Boots != 1:
			return fmt.Errorf("%s has booted %d times", c.Node, c.machine.Boots)
		}
		if err := s.isReady(ctx, c.Node); err != nil {
			return err
		}
	}
	return nil
}

// levelOf is the patch level of a machine's disk.
func levelOf(m machine.Status) (string, error) {
	t, err := tree.Open(m.Disk)
	if err != nil {
		return "", err
	}
	defer t.Close()
	return patchdisk.Level(t)
}

func (s pioneerDemo) onlyPioneerRanApt(context.Context) error {
	if n := s.pioneer.later.Requests; n > 0 {
		return fmt.Errorf("%d requests reached the repository while the pool grew", n)
	}
	for _, m := range s.world.Fleet().Machines() {
		text, err := os.ReadFile(filepath.Join(m.Disk, "var/log/apt/history.log"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if m.Node != s.donor && strings.Contains(string(text), advisory[0].Version) {
			return fmt.Errorf("%s ran apt: %s", m.Node, text)
		}
	}
	return nil
}

// outOfService is the time of the node's patch out of service: drain, apt and reboot.
func (s pioneerDemo) outOfService() (sum time.Duration) {
	for _, step := range s.capture.prototype.Status.Steps {
		if slices.Contains([]v1alpha1.Phase{v1alpha1.PhasePatching, v1alpha1.PhaseRebooting}, step.Phase) && step.FinishedAt != nil {
			sum += step.FinishedAt.Sub(step.StartedAt.Time)
		}
	}
	return sum
}

func (s pioneerDemo) comparePatching(context.Context) error {
	own := s.pioneer
	patch, capture := s.outOfService(), s.capture.away
	if s.copiesDonor() {
		capture = 0
	}
	rows := [][3]string{{"", "each is patched", "one pioneer"}}
	for _, nodes := range []int64{int64(len(own.clones)), manyNodes} {
		n := func(each int64) int64 { return each * nodes }
		rows = append(rows,
			[3]string{fmt.Sprintf("%d new nodes", nodes)},
			[3]string{"  nodes that run apt", fmt.Sprint(nodes), "1"},
			[3]string{"  sent by the repository", megabytes(n(own.sent.Bytes)), megabytes(own.sent.Bytes)},
			[3]string{"  reboots", fmt.Sprint(nodes), fmt.Sprint(own.boots)},
			[3]string{"  out of service", nodeMinutes(time.Duration(n(int64(patch)))), nodeMinutes(patch + capture)})
	}
	s.print.table(rows)
	s.print.gap()
	s.print.line("At the end, all new nodes are patched, in both columns. Running nodes are in neither: kured or your patch tool patches them, " +
		"or the pool replaces them (rebuild.outdated).")
	s.print.line("Measured: the bytes by the repository, the boots by the machine, the times by the steps of Prototype %s: %.0f s for drain, apt and "+
		"reboot, %.0f s for the capture. apt runs in real time. Computed: the left column is the pioneer's own patch, once for each node.",
		s.capture.prototype.Name, patch.Seconds(), capture.Seconds())
	if s.copiesDonor() {
		s.print.line("The pioneer booted only after the patch: it served while its disk was copied.")
	}
	return nil
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func nodeMinutes(d time.Duration) string { return fmt.Sprintf("%.1f node-minutes", d.Minutes()) }
