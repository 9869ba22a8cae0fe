package demo

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/child"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/unverified"
)

// The demo with a bad image and no trial: the nodes do not join, and Kamino rolls the pool back automatically.

// unused are nodes that are built from the bad version. Two are enough for the pool to go back.
const unused = 2

// rollbackTimeout is the time limit for the rollback, and for the verdict on the version.
const rollbackTimeout = time.Minute

// rollbackPolicy captures nothing here: no node has been Ready for an hour since its patch. Its timeout is short,
// because a node of this pool joins within a second.
const rollbackPolicy = `apiVersion: kamino.dev/v1alpha1
kind: PrototypePolicy
metadata:
  name: all
spec:
  rollback:
    joinTimeout: 6s
  settings:
    ` + unverified.Settings + "\n"

// rollbackState is the state that the steps of the rollback demo share.
type rollbackState struct {
	good, bad string
	// built from the bad version, by instance.
	built      []string
	controller *child.Process
	// duration is the time from the order to grow until the recipe named the good version again.
	duration time.Duration
}

func (s *scenario) rollbackSteps() []step {
	return []step{
		{"A cluster starts; its pool is built from a generic image", s.clusterComesUp},
		{"A node is captured, and the pool grows by a copy that joins", s.goodVersion},
		{"Another node is captured; the image is bad and has no trial", s.badVersion},
		{"A policy watches how the nodes of the pool join", s.policyWatches},
		{"The pool grows by two nodes; both do not join, and Kamino rolls the pool back", s.rollsBack},
		{"The pool grows by a third node, which joins: the bad version is quarantined", s.quarantinesVersion},
		{"Output of kamino", s.showKamino},
		{"Checks", s.everythingIsChecked},
	}
}

func (s *scenario) rollbackChecks() []check {
	return []check{
		{fmt.Sprintf("%d nodes were built from the bad version, none afterwards, and none of them joined", unused), s.builtBad},
		{"Kamino rolled the pool back once", s.rolledBackOnce},
		{"the recipe names the previous version; the newest node was built from the previous version and is Ready", s.builtFromGood},
		{"the bad version is quarantined, with the reason", s.badIsQuarantined},
		{"the good version has no bad mark", s.goodHasNoMarks},
		{"the policy captures no node of the pool until you acknowledge the rollback", s.capturesStopped},
		{"the running nodes are unchanged", s.othersUntouched},
		{"the cloud rebuilt no running node", s.noNodeUpgraded},
		{"no snapshot, pod or lock is left", s.noLeftovers},
	}
}

// capturesVersion patches the n-th node and captures the node as a version. The recipe names the version afterwards.
func (s *scenario) capturesVersion(ctx context.Context, n int, version string) error {
	machines, err := s.world.Machines(ctx)
	if err != nil {
		return err
	}
	donor := machines[n].Node
	s.print.line("%s is patched, as kured does", donor)
	if err := s.world.Patch(ctx, donor, control.Patch{Reboot: true}, func(control.Event) {}); err != nil {
		return err
	}
	order := unverified.Capture(donor, "--version", version)
	s.print.line("kamino %s", strings.Join(order, " "))
	said, err := s.output(ctx, order...)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	s.print.line("%s", lines[len(lines)-1])
	if now, err := s.version(ctx); err != nil || now != version {
		return fmt.Errorf("the recipe names version %q, want %s: %w", now, version, err)
	}
	return nil
}

func (s *scenario) goodVersion(ctx context.Context) (err error) {
	today := time.Now().UTC().Format("2006.01.02")
	s.rollback.good, s.rollback.bad = today, today+"02"
	if err := s.capturesVersion(ctx, 0, s.rollback.good); err != nil {
		return err
	}
	size, err := s.size(ctx)
	if err != nil {
		return err
	}
	_, err = s.world.Scale(ctx, s.pool, control.Scale{Nodes: size + 1, Wait: true}, s.print.event)
	return err
}

func (s *scenario) badVersion(ctx context.Context) error {
	s.print.line("kamino-sandbox spoil %s --with %s", s.pool, disk.NeverJoins)
	if _, err := s.world.Spoil(ctx, s.pool, control.Spoil{Defect: disk.Defect{Kind: disk.NeverJoins}}); err != nil {
		return err
	}
	if err := s.capturesVersion(ctx, 1, s.rollback.bad); err != nil {
		return err
	}
	s.before = map[string]machine.Status{}
	for _, m := range s.world.Fleet().Machines() {
		s.before[m.Node] = m
	}
	return nil
}

func (s *scenario) policyWatches(ctx context.Context) error {
	for line := range strings.Lines(rollbackPolicy) {
		s.print.line("%s", strings.TrimRight(line, "\n"))
	}
	if _, err := s.programs().Apply(ctx, strings.NewReader(rollbackPolicy)); err != nil {
		return err
	}
	return s.startController(ctx)
}

// startController starts a controller that runs until the end of the demo.
func (s *scenario) startController(ctx context.Context) (err error) {
	s.print.line("kamino controller")
	command := s.programs().Command(ctx, s.Kamino, "controller", "--health-probe-bind-address", "0", "--image", "ghcr.io/kamino-dev/kamino-node:demo")
	s.rollback.controller, err = child.Start(command, filepath.Join(s.dir, "controller.log"))
	return err
}

// stopController interrupts the controller, and waits for its end.
func (s *scenario) stopController() error {
	c := s.rollback.controller
	if c == nil {
		return nil
	}
	s.rollback.controller = nil
	return c.Stop()
}

func (s *scenario) rollsBack(ctx context.Context) error {
	size, err := s.size(ctx)
	if err != nil {
		return err
	}
	s.world.Cloud().ResetStats()
	began := time.Now()
	if _, err := s.world.Scale(ctx, s.pool, control.Scale{Nodes: size + unused}, s.print.event); err != nil {
		return err
	}
	err = s.await(ctx, "the pool is back on version "+s.rollback.good, func(ctx context.Context) (bool, error) {
		version, err := s.version(ctx)
		return version == s.rollback.good, err
	})
	if err != nil {
		return err
	}
	s.rollback.duration = time.Since(began)
	bad, err := s.badMachines(ctx)
	if err != nil {
		return err
	}
	for _, m := range bad {
		s.rollback.built = append(s.rollback.built, m.ID)
	}
	s.print.event(control.Event{Subject: s.pool, Seconds: s.rollback.duration.Seconds(), Text: fmt.Sprintf(
		"%d instances run and have no Node; the recipe names version %s again", len(s.rollback.built), s.rollback.good)})
	return nil
}

func (s *scenario) quarantinesVersion(ctx context.Context) error {
	size, err := s.size(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := s.world.Scale(ctx, s.pool, control.Scale{Nodes: size + 1}, s.print.event); err != nil {
		return err
	}
	err = s.await(ctx, "version "+s.rollback.bad+" is condemned", func(ctx context.Context) (bool, error) {
		tags, err := s.tagsOf(ctx, s.rollback.bad)
		return tags[cloud.TagQuarantined] != "", err
	})
	if err != nil {
		return err
	}
	s.print.event(control.Event{Subject: s.pool, Text: "version " + s.rollback.bad + " is quarantined", Seconds: time.Since(began).Seconds()})
	return nil
}

func (s *scenario) showKamino(ctx context.Context) error {
	if err := s.stopController(); err != nil {
		return fmt.Errorf("kamino controller: %w", err)
	}
	set := s.set()
	for _, args := range [][]string{{"history", set}, {"status"}, {"plan", set}} {
		s.print.line("kamino %s", strings.Join(args, " "))
		s.print.gap()
		if err := s.run(ctx, args...); err != nil {
			return fmt.Errorf("kamino %s: %w", args[0], err)
		}
		s.print.gap()
	}
	return nil
}

// await polls until the condition holds.
func (s *scenario) await(ctx context.Context, what string, so func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, rollbackTimeout, true, so); err != nil {
		return s.rollback.controller.Trouble(fmt.Errorf("timeout while waiting until %s: %w", what, err))
	}
	return nil
}

// set is the pool's name in the cloud and in Kamino.
func (s *scenario) set() string { return pool.Spec{Name: s.pool}.In(s.Cloud) }

// version of the pool's next node; empty if the image is no version of the pool.
func (s *scenario) version(ctx context.Context) (string, error) {
	pools, err := s.world.Pools(ctx)
	if err != nil {
		return "", err
	}
	return s.world.VersionOf(ctx, s.pool, pools[0].Image)
}

// tagsOf returns the tags of a version in the cloud.
func (s *scenario) tagsOf(ctx context.Context, version string) (map[string]string, error) {
	all, err := s.world.Versions(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if v.Name == version {
			return v.Tags, nil
		}
	}
	return nil, fmt.Errorf("version %s not found", version)
}

func (s *scenario) builtBad(ctx context.Context) error {
	bad, err := s.badMachines(ctx)
	if err != nil {
		return err
	}
	var now []string
	for _, m := range bad {
		now = append(now, m.ID)
		if m.Node != "" {
			return fmt.Errorf("%s has joined as %s", m.ID, m.Node)
		}
	}
	if len(now) != unused || !slices.Equal(now, s.rollback.built) {
		return fmt.Errorf("instances of the bad version: %v, were %v at the rollback", now, s.rollback.built)
	}
	return nil
}

// badMachines returns the machines that were built from the bad version.
func (s *scenario) badMachines(ctx context.Context) ([]machine.Status, error) {
	all, err := s.world.Versions(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(v region.Version) bool { return v.Name == s.rollback.bad })
	if at < 0 {
		return nil, fmt.Errorf("version %s not found", s.rollback.bad)
	}
	return slices.DeleteFunc(s.world.Fleet().Machines(), func(m machine.Status) bool { return !strings.EqualFold(m.Image, all[at].ID) }), nil
}

// rolledBackOnce counts the changes of the pool that the cloud made since: the two growths, and the way back.
func (s *scenario) rolledBackOnce(ctx context.Context) error {
	tags, err := s.tagsOf(ctx, s.rollback.bad)
	if err != nil {
		return err
	}
	if tags[cloud.TagRolledBackTo] != s.rollback.good {
		return fmt.Errorf("the tag of version %s names the rollback target %q", s.rollback.bad, tags[cloud.TagRolledBackTo])
	}
	const growths = 2
	changes := 0
	for _, r := range s.world.Cloud().Requests() {
		if (r.Noun == "pool" || r.Noun == "group") && r.Class == requestlog.Write && r.Status < http.StatusMultipleChoices {
			changes++
		}
	}
	if changes != growths+1 {
		return fmt.Errorf("the pool was changed %d times, %d of them growths", changes, growths)
	}
	return nil
}

func (s *scenario) builtFromGood(ctx context.Context) error {
	version, err := s.version(ctx)
	if err != nil {
		return err
	}
	if version != s.rollback.good {
		return fmt.Errorf("the recipe names %q", version)
	}
	var newest machine.Status
	for _, m := range s.world.Fleet().Machines() {
		if m.Node != "" && s.before[m.Node].Node == "" {
			newest = m
		}
	}
	if built, err := s.world.VersionOf(ctx, s.pool, newest.Image); err != nil || built != s.rollback.good {
		return fmt.Errorf("node %q was built from %s", newest.Node, newest.Image)
	}
	return s.isReady(ctx, newest.Node)
}

func (s *scenario) badIsQuarantined(ctx context.Context) error {
	tags, err := s.tagsOf(ctx, s.rollback.bad)
	if err != nil {
		return err
	}
	if why := tags[cloud.TagQuarantined]; !strings.Contains(why, "join health") || !strings.Contains(why, s.rollback.bad) {
		return fmt.Errorf("the reason of the quarantine is %q", why)
	}
	return nil
}

func (s *scenario) goodHasNoMarks(ctx context.Context) error {
	tags, err := s.tagsOf(ctx, s.rollback.good)
	if err != nil {
		return err
	}
	for _, tag := range []string{cloud.TagQuarantined, cloud.TagSuspect, cloud.TagRolledBackTo} {
		if tags[tag] != "" {
			return fmt.Errorf("the good version has the tag %s=%s", tag, tags[tag])
		}
	}
	return nil
}

func (s *scenario) capturesStopped(ctx context.Context) error {
	plan, err := s.output(ctx, "plan", s.set())
	if err != nil {
		return err
	}
	if !strings.Contains(string(plan), "kamino acknowledge") {
		return fmt.Errorf("the plan does not ask for the acknowledgement:\n%s", plan)
	}
	return nil
}
