package week

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
)

const (
	// patched is the package whose version is a disk's patch level.
	patched    = "openssl"
	inProgress = "weave.works/kured-reboot-in-progress"
)

// level returns the version of the package in a day's patch.
func (w *week) level(day int) string {
	if day == w.badDay {
		return fmt.Sprintf("3.0.2-0ubuntu1.%d+bad", day)
	}
	return fmt.Sprintf("3.0.2-0ubuntu1.%d", day)
}

// patch is the first step of a day. Every node installs the patch, and kured annotates the nodes. A user reboots
// one node of each pool at once and leaves kured's annotation: this node is Ready for longest, and no donor. Then
// nodes get kured's lock one by one: nodes of the bad version, and some more of each pool. Only the latter may be
// donors. All other nodes still wait in the evening.
func (w *week) patch(day int) {
	w.Helper()
	var all, byHand, bad []machine.Status
	turns := make([][]machine.Status, w.turns)
	for _, pool := range w.pools {
		nodes := w.machines(pool)
		all = append(all, nodes...)
		for i := range nodes { // the order of the lock does not depend on names
			j := i + w.trouble.draw(len(nodes)-i)
			nodes[i], nodes[j] = nodes[j], nodes[i]
		}
		good := slices.DeleteFunc(slices.Clone(nodes), func(m machine.Status) bool { return w.versionOf(pool, m.Image) == w.dayName(w.badDay) })
		for _, m := range nodes {
			if !slices.ContainsFunc(good, func(g machine.Status) bool { return g.ID == m.ID }) {
				bad = append(bad, m)
			}
		}
		for i := range min(len(turns), len(good)) {
			turns[i] = append(turns[i], good[i])
		}
		if len(good) > len(turns) {
			byHand = append(byHand, good[len(turns)])
		}
	}
	w.fit = map[string]bool{}
	for _, m := range slices.Concat(turns...) {
		w.fit[m.Node] = true
	}
	half := len(all) / 2
	for _, some := range [][]machine.Status{all[:half], all[half:]} {
		each(w, some, func(ctx context.Context, m machine.Status) error {
			return sandbox.Fleet().Patch(ctx, m.ID, machine.PatchOptions{Packages: map[string]string{patched: w.level(day)}, Kured: true, NoReboot: true})
		})
		w.skip(27 * time.Second)
	}
	each(w, byHand, func(ctx context.Context, m machine.Status) error {
		return sandbox.Reboot(ctx, m.Node, func(control.Event) {})
	})
	w.skip(5 * time.Minute)
	for _, some := range append([][]machine.Status{bad}, turns...) {
		each(w, some, w.kured)
		w.skip(6 * time.Minute)
	}
}

// kured reboots a node that holds its lock.
func (w *week) kured(ctx context.Context, m machine.Status) error {
	if err := w.editNode(ctx, m.Node, func(n *corev1.Node) { n.Spec.Unschedulable = true }); err != nil {
		return err
	}
	if err := sandbox.Reboot(ctx, m.Node, func(control.Event) {}); err != nil {
		return err
	}
	return w.editNode(ctx, m.Node, func(n *corev1.Node) {
		n.Spec.Unschedulable = false
		delete(n.Annotations, inProgress)
	})
}

// grow adds a node to each pool, and asserts that the node has the recipe's version and a day's patch.
func (w *week) grow(recipes map[string]string, day int) {
	w.Helper()
	before := map[string]bool{}
	for _, pool := range w.pools {
		for _, m := range w.machines(pool) {
			before[m.ID] = true
		}
	}
	each(w, w.pools, w.pooler.grow)
	for _, pool := range w.pools {
		fresh := slices.DeleteFunc(w.machines(pool), func(m machine.Status) bool { return before[m.ID] })
		if len(fresh) != 1 {
			w.Fatalf("pool %s has %d new nodes, want 1", pool, len(fresh))
		}
		m := fresh[0]
		if got := w.versionOf(pool, m.Image); got != recipes[pool] || m.Packages[patched] != w.level(day) {
			w.Errorf("the newest node of %s, %s, is built from version %s and has %s %s, want version %s and %s", pool, m.Node, got,
				patched, m.Packages[patched], recipes[pool], w.level(day))
		}
		w.newest[pool] = m.Node
	}
}
